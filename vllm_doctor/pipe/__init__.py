"""The transparent pipe: every byte passes on at once and unchanged, while a second process reads a copy.

    vllm serve ... 2>&1 | vllm-doctor watch       pump(analyse)
    vllm-doctor run -- vllm serve ...             run_command(argv, analyse)
    vllm-doctor watch --file server.log           follow_files(followers), without a fork: nothing passes

The process forks: the parent only copies bytes, the child calls `analyse(reader)`, and its return value is the verdict.
Between them runs a pipe with frames (analyser_channel.py) and, before it, a bounded backlog in the parent: a slow
analyser never slows the server, it misses the oldest bytes instead and is notified (`Gap`). A crash is at the end of a
log: the newest stay.

Main thread of a POSIX system only: signal handlers and fork are used.
"""

from vllm_doctor.pipe.analyser_channel import Gap, Reader
from vllm_doctor.pipe.file_followers import Follower, follow_files
from vllm_doctor.pipe.growing_file import FollowedFile
from vllm_doctor.pipe.started_command import run_command
from vllm_doctor.pipe.stdin_pump import PumpResult, pump
from vllm_doctor.pipe.times_in_files import offset_of

__all__ = ["FollowedFile", "Follower", "Gap", "PumpResult", "Reader", "follow_files", "offset_of", "pump",
           "run_command"]
