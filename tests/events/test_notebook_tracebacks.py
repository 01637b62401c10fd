"""Tracebacks of notebooks, captured with IPython 9 in `NoColor`; one with links as VS Code makes them, one as IPython 7 prints it."""

from __future__ import annotations

import pytest
from read_events import read

from vllm_doctor import diagnose
from vllm_doctor.events.reader import EventReader
from vllm_doctor.failures import Place
from vllm_doctor.logs.lines import Line

SITE = "/opt/venv/lib/python3.11/site-packages"
PRINTED = f"""\
---------------------------------------------------------------------------
ValueError                                Traceback (most recent call last)
Cell In[1], line 5
      2 def go():
      3     loglikelihood_tokens([None])
----> 5 go()

Cell In[1], line 3, in go()
      2 def go():
----> 3     loglikelihood_tokens([None])

File {SITE}/lighteval/models/vllm/vllm_model.py:7, in Model.loglikelihood_tokens(self, outputs)
      5     first = output["logprobs"]
      6 except TypeError as error:
----> 7     raise ValueError("The engine returned no log probabilities: "
      8                      "prompt_logprobs is None") from error

ValueError: The engine returned no log probabilities
"""
LINKED = PRINTED.replace(f"File {SITE}/lighteval/models/vllm/vllm_model.py:7,",
                         f"File [{SITE}/lighteval/models/vllm/vllm_model.py:7](http://localhost/lab/tree/vllm_model.py#line=6),").replace(
                             "----> 7 ", "----> [7](http://localhost/lab/tree/vllm_model.py#line=6) ")
OLDER = PRINTED.replace("Cell In[1], line 5\n", "<ipython-input-1-5ea7e5> in <module>\n").replace(
    "Cell In[1], line 3, in go()\n", "<ipython-input-1-5ea7e5> in go()\n").replace("File /opt", "/opt").replace(".py:7, in Model.", ".py in ")


COLAB = "\n".join(OLDER.replace(f"{SITE}/lighteval/models/vllm/vllm_model.py in ",
                               f"[{SITE}/lighteval/models/vllm/vllm_model.py](https://localhost:8080/#) in ").splitlines()[11:])


@pytest.mark.parametrize("text", [PRINTED, LINKED, OLDER, COLAB], ids=["printed", "linked", "older", "colab-without-its-head"])
def test_the_exception_has_the_calls(text: str) -> None:
    *rows, last = read(*text.splitlines())
    assert all(row.is_code for row in rows[2:])
    assert last.text == "ValueError: The engine returned no log probabilities"
    assert last.frames == "lighteval/models/vllm/vllm_model.py:loglikelihood_tokens"


def test_the_failure_has_its_place() -> None:
    failure = diagnose(PRINTED.encode()).failure
    assert failure is not None
    assert failure.origin == Place("lighteval", "lighteval/models/vllm/vllm_model.py", "loglikelihood_tokens", 7)


def test_a_rule_reads_the_calls() -> None:
    text = ("OutOfMemoryError                          Traceback (most recent call last)\n"
            f"File {SITE}/vllm/worker/cache_engine.py:64, in CacheEngine._allocate_kv_cache(self, num_blocks, device)\n"
            "---> 64         torch.empty(kv_cache_shape,\n"
            "\n"
            "OutOfMemoryError: CUDA out of memory. Tried to allocate 642.00 MiB. GPU 0 has a total capacity of 23.64 GiB\n")
    assert diagnose(text.encode()).primary == "kv-cache-allocation-oom"


@pytest.mark.parametrize("text", ["     46 lines were read", "---> 49 of them", "File run.py, in the text", "the file run.py in use"])
def test_other_lines_stay_as_they_are(text: str) -> None:
    (event,) = read(text)
    assert (event.text, event.is_code, event.frames) == (text, False, "")


def test_a_start_that_ends_in_a_notebook_counts_alike_in_full_and_by_its_notes() -> None:
    rows = PRINTED.splitlines()
    full, noted = EventReader(), EventReader()
    for number, row in enumerate(rows, 1):
        full.read(Line(number, row, ""))
        noted.apply_start_note(number, noted.start_note(Line(number, row, "")))
    start = Line(99, "INFO 05-06 10:00:00 [api_server.py:1] vLLM API server version 0.8.5", "")
    events = [reader.read(start) for reader in (full, noted)]
    assert [event.run for event in events if event is not None] == [2, 2]
