#!/bin/bash
# So many workers as jobs of an array, those that are there counted: HOBUS_JOIN_TOKEN=hobus1... workers.sh --count 8 [OPTION OF SBATCH]...
# `hobus workers on slurm` makes the token. HOBUS_WORKERS: their job name, and that of the token's file. DRY_RUN=1: say it only.
set -euo pipefail
name=${HOBUS_WORKERS:-hobus-worker} token=${HOBUS_JOIN_TOKEN:-} DRY_RUN=${DRY_RUN:-}
unset HOBUS_JOIN_TOKEN # jobs read the file
fail() { echo "$1" >&2; exit 2; }
[[ ${1:-} == --count && ${2:-} =~ ^[0-9]+$ ]] || fail "how many? --count N: SLURM runs as many jobs as were submitted"
count=$2
shift 2
run() { if [ "$DRY_RUN" ]; then echo "$*"; else "$@"; fi; }

said=
if command -v squeue >/dev/null; then
  said=$(squeue --me --noheader --array --name "$name" --format '%t %i')
elif [ "$DRY_RUN" != 1 ]; then
  fail "squeue is not here: run it where SLURM's commands are, on a login node, with hobus and this home there"
fi
# Those that are worth most first: at work and oldest, then older, then those that wait.
mapfile -t jobs < <(sed -nE '/^(CG|CD|CA) /d; s/^PD /1 /p; t; s/^[A-Z]+ /0 /p' <<<"$said" | sort -k1,1n -k2,2V)
if [ "$count" -gt 0 ] && [ ! "$DRY_RUN" ]; then # also where none is missing: what is requeued later joins with it
  (umask 077 && echo "$token" >"$HOME/.$name.token.new" && mv "$HOME/.$name.token.new" "$HOME/.$name.token")
fi
if [ "$count" -gt "${#jobs[@]}" ]; then
  run sbatch "--array=1-$((count - ${#jobs[@]}))" "--job-name=$name" "--export=ALL,JOIN_TOKEN_FILE=$HOME/.$name.token" "$@" "$(dirname "$0")/worker.sbatch"
elif [ "$count" -eq "${#jobs[@]}" ]; then
  echo "$count workers are there already"
else
  waiting=() working=()
  for job in "${jobs[@]:$count}"; do if [ "${job%% *}" = 1 ]; then waiting+=("${job#* }"); else working+=("${job#* }"); fi; done
  [ ${#waiting[@]} -eq 0 ] || run scancel "${waiting[@]}"
  [ ${#working[@]} -eq 0 ] || run scancel --signal=TERM "${working[@]}" # they drain within their grace, and are not requeued
fi
