"""A report made by hand, so that the formats' snapshots do not move when a rule's words do."""

from __future__ import annotations

from vllm_doctor.facts.load_curve import LoadPoint
from vllm_doctor.failures import Place, Setting
from vllm_doctor.memory import Memory, Part
from vllm_doctor.reports.model import Evidence, Failure, Finding, Fix, Report, Source

COMMAND = "vllm serve /models/demo-8b --port 8000 \\\n  --tensor-parallel-size 2 --max-model-len 33712"

CAUSE = Finding(
    id="kv-cache-too-small-for-max-len",
    title="One request of 131,072 tokens does not fit in the KV cache",
    severity="error",
    confidence=0.95,
    role="cause",
    phase="kv-cache",
    evidence=(
        Evidence(105, "ValueError: To serve at least one request with the model's max seq len (131072), (16.00 GiB KV cache is "
                      "needed, which is larger than the available KV cache memory (4.12 GiB)."),
        Evidence(131, "RuntimeError: Engine core initialization failed. See root cause above."),
    ),
    explanation="After the weights, vLLM gives what is left of its budget to the KV cache: 4.12 GiB here.\n\n"
                "One request of 131,072 tokens needs 16 GiB.",
    fixes=(
        Fix(id="lower-max-model-len", title="Serve a context of 33,712 tokens", flags={"--max-model-len": "33712"},
            command=COMMAND, why="33,712 tokens take 4.115 GiB of the 4.12 GiB.", cost="Longer requests are refused.",
            safety="safe", verify="The start prints `Maximum concurrency for 33,712 tokens per request: 1.00x`.",
            proof={"kv_cache_available_gib": 4.12, "kv_bytes_per_token": 131072}),
        Fix(id="kv-cache-fp8", title="Keep the KV cache in 8 bits", flags={"--kv-cache-dtype": "fp8"},
            env={"VLLM_ATTENTION_BACKEND": "FLASHINFER"}, unset=("--swap-space",), safety="review",
            cost="Answers may differ a little."),
        Fix(id="larger-gpu", title="Use more GPUs", action="more-gpus", safety="manual",
            steps=("Add a GPU of the same kind.", "Set --tensor-parallel-size to their number.")),
        Fix(id="compose", title="Change the service", safety="review",
            patch={"kind": "compose", "text": 'services:\n  vllm:\n    command: ["--max-model-len", "33712"]'}),
    ),
    links=("https://docs.vllm.ai/en/latest/configuration/conserving_memory/",),
    ranks="on 2 of 2 ranks",
)

CASCADE = Finding(
    id="engine-core-init-failed", title="The engine did not start, and the reason stands elsewhere in the log",
    severity="error", confidence=0.5, role="cascade", phase="kv-cache",
    evidence=(Evidence(131, "RuntimeError: Engine core initialization failed. See root cause above."),),
    explanation="The process of the engine ended, and this is its parent.", fixes=(), links=())

ADVICE = Finding(
    id="swap-space-unused", title="Swap space is set and never used", severity="warning", confidence=0.5, role="advice",
    phase="config", evidence=(Evidence(12, "WARNING: swap_space is ignored"),), explanation="V1 does not swap.",
    fixes=(Fix(id="drop", title="Leave it out", unset=("--swap-space",), safety="safe"),), links=())

INFO = Finding(
    id="shutdown-leftovers", title="Warnings of processes that end without tidying up", severity="info", confidence=0.5,
    role="cascade", phase="runtime", evidence=(Evidence(167, "resource_tracker: There appear to be 1 leaked objects"),),
    explanation="They follow from the failure.", fixes=(), links=())

MEMORY = Memory(24.0, 21.6, (
    Part("weights", 15.27, "log"), Part("activations", 1.44, "log"), Part("non_torch", 0.77, "computed"),
    Part("kv_cache", 4.12, "log"), Part("cuda_graphs", 0.61, "log"), Part("other_processes", 0.4, "computed"),
    Part("outside_budget", 1.39, "computed"),
), "The budget is of the default utilization, 0.9.")

FAILED = Report(
    source=Source("logs/server.log", 812, 91234, 2, 2), status="failed", phase="profiling",
    facts={"vllm_version": "0.8.5", "engine": "V1", "gpu_name": "NVIDIA L4", "model": "/models/demo-8b",
           "max_model_len": 131072, "gpu_memory_utilization": 0.9, "enforce_eager": False, "model_weights_gib": 15.27,
           "kv_cache_available_gib": 4.12},
    facts_at={"vllm_version": ({"line": 3, "rank": None, "value": "0.8.5"},),
              "model_weights_gib": tuple({"line": line, "rank": 0, "value": 15.27} for line in (60, 61, 62, 63))},
    derived={"kv_bytes_per_token": 131072}, memory=MEMORY, primary=CAUSE.id, failure=None,
    findings=(CAUSE, CASCADE, ADVICE, INFO), notes=("The log has 2 server starts; this report is on number 2.",))

HEALTHY = Report(
    source=Source("-", 90, 9000, 1, 1), status="serving", phase="api", facts={"vllm_version": "0.8.5"}, facts_at={},
    derived={}, memory=None, primary=None, failure=None, findings=())

UNEXPLAINED = Report(
    source=Source("/var/log/vllm/server.log", 40, 4000, 1, 1), status="failed", phase="weights", facts={}, facts_at={},
    derived={}, memory=None, primary=None,
    failure=Failure(
        line=33, last_line=33, exception="KeyError", message="'layers.31'",
        origin=Place("vllm", "vllm/model_executor/models/demo.py", "load_weights", 310), vllm_frame=None,
        caller="demo/serve.py", own_frame=None, feature="model-loading", kind="bug",
        settings=(Setting("--load-format", "dummy", "command"),), signature="KeyError-0b1c2d3e",
        fixes=(Fix(id="without-model-loading", title="As a test, start with the default load format",
                   unset=("--load-format",), why="If the failure is gone, it is in this part."),
               Fix(id="report-bug", title="Report it", action="report-bug", safety="manual", steps=("Search first.",))),
        text='  File "/opt/venv/vllm/model_executor/models/demo.py", line 310, in load_weights\n'
             "    param = params[name]\nKeyError: 'layers.31'"),
    findings=())

BUSY = HEALTHY._replace(
    status="serving", phase="runtime", facts={"vllm_version": "0.8.5", "max_num_seqs": 256},
    findings=(ADVICE, INFO, ADVICE._replace(id="second-advice", title="A second finding")),
    load=tuple(LoadPoint(min(100.0, 4.0 * number), min(64, 2 * number), max(0, number - 30)) for number in range(60)))
