#!/bin/bash
# The workers of base/ alone, for a cluster elsewhere: HOBUS_JOIN_TOKEN=hobus1... workers.sh --image IMAGE --count 8
# or, with KEDA: --min 1 --max 20. `hobus workers on kubernetes` makes the token. DRY_RUN=1: say it only.
set -euo pipefail
cd "$(dirname "$0")"
count='' image='' min='' max=''
fail() { echo "$1" >&2; exit 2; }
while [ $# -gt 0 ]; do
  case $1 in --count) count=${2:-} ;; --image) image=${2:-} ;; --min) min=${2:-} ;; --max) max=${2:-} ;; *) fail "$1: expected --image, --count, --min, --max" ;; esac
  shift $(($# > 1 ? 2 : 1))
done
[[ $count =~ ^[0-9]+$ && ! $min$max || ! $count && $min =~ ^[0-9]+$ && $max =~ ^[1-9][0-9]*$ && $max -ge $min ]] ||
  fail "how many? --count N, or --min N --max M with KEDA, M being at least N and at least 1"
[[ ${DRY_RUN:-} = 1 ]] || command -v kubectl >/dev/null || fail "kubectl is not here: install it, and let \`kubectl config current-context\` name the cluster that is meant"
run() { if [ "${DRY_RUN:-}" ]; then echo "$*" && cat; else "$@"; fi; }
end_autoscaler() { # of an earlier --min and --max, which would undo the number; without KEDA there is none
  run kubectl --namespace hobus delete scaledobjects.keda.sh/hobus-worker --ignore-not-found </dev/null 2>/dev/null || true
}
if [ "$count" = 0 ]; then
  end_autoscaler
  run kubectl --namespace hobus scale deployment/hobus-worker --replicas=0 </dev/null
  exit
fi
[[ ! ${HOBUS_LISTENS:-} =~ ^(127\.|localhost:|\[::1\]) ]] || fail "the cluster listens on this machine alone, which no pod reaches: hobus up --listen HOST:PORT, or name the --address that they reach"
[[ $image =~ ^[A-Za-z0-9./:@_-]+$ ]] || fail "which image do the workers run? Build container/Containerfile, push it, then --image registry.example.org/hobus:TAG"
[ ! "$count" ] || end_autoscaler
replicas=$([ "$count" ] && echo "s/^  replicas:.*/  replicas: $count/" || echo '/^  replicas:/d') # beside an autoscaler the number is its own
{
  cat base/namespace.yaml
  printf -- '---\napiVersion: v1\nkind: Secret\nmetadata: {name: hobus-join}\nstringData: {token: "%s"}\n---\n' "${HOBUS_JOIN_TOKEN:-<the token>}"
  sed "$replicas; s|^          image:.*|          image: $image|" base/worker.yaml
  [ "$count" ] || { echo --- && sed "s/minReplicaCount:.*/minReplicaCount: $min/; s/maxReplicaCount:.*/maxReplicaCount: $max/" keda/scaledobject.yaml; }
} | run kubectl --namespace hobus apply --filename -
