"""Where in a log file a time is reached, by the times that its lines begin with."""

from __future__ import annotations

import os
import re
from datetime import datetime, timedelta

from vllm_doctor.errors import InputError, reason

_LONGEST = 1 << 16  # bytes of a line that are read at once
_TIME = re.compile(rb".{0,64}?(?:(?P<year>\d{4})-)?(?<!\d)(?P<day>\d\d-\d\d)[ T](?P<clock>\d\d:\d\d:\d\d)"
                   rb"(?:[.,]\d{1,9})?(?P<zone>Z|[+-]\d\d:\d\d)?")
_DAY = timedelta(days=1)


def offset_of(path: str, moment: datetime) -> int:
    """Return where the first line begins that is not older than the moment; the file's size if all are older.

    A time without a zone is local, one without a year is of the last twelve months. A file that does not exist has no
    older line. Raises InputError.
    """
    now = datetime.now().astimezone()
    offset = 0
    try:
        if not os.path.isfile(path):
            return 0
        with open(path, "rb") as file:
            while line := file.readline(_LONGEST):
                time = _time_of(line, now)
                if time is not None and time >= moment:
                    return offset
                offset += len(line)
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        raise InputError(f"{path}: {reason(error)}") from error
    return offset


def _time_of(line: bytes, now: datetime) -> datetime | None:
    found = _TIME.match(line)
    if found is None:
        return None
    year = (found["year"] or b"%d" % now.year).decode()
    zone = (found["zone"] or b"").decode().replace("Z", "+00:00")
    try:
        time = datetime.fromisoformat(f"{year}-{found['day'].decode()}T{found['clock'].decode()}{zone}").astimezone()
        if not found["year"] and time > now + _DAY:
            time = time.replace(year=time.year - 1)
    except (ValueError, OverflowError):  # 13-45 99:99:99, 02-29 of another year
        return None
    return time
