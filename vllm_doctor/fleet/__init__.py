"""Many logs, few causes: the rows of each log, the tables of a fleet, their summary.

>>> from vllm_doctor import fleet
>>> [row["cause"] for row in fleet.rows("fixtures/logs/healthy/tiny-start-stop.log")]
[None]

`rows` is a pure function of a log: it pickles, so it runs in any pool (`ray.data.from_items(urls).flat_map(...)`,
`concurrent.futures`, Spark), and a process is warm after its first log.
"""

from __future__ import annotations

from vllm_doctor.fleet import engines
from vllm_doctor.fleet.model import FindingRow, LogRows, StartRow
from vllm_doctor.fleet.read_fleet import Shard, fleet, merge
from vllm_doctor.fleet.rows import rows
from vllm_doctor.fleet.summary import Group, Summary

__all__ = ["FindingRow", "Group", "LogRows", "Shard", "StartRow", "Summary", "engines", "fleet", "merge", "rows"]
