"""What a GPU's own tool says of it: total, used and free memory, names, from nvidia-smi and its counterparts."""

from vllm_doctor.gpu_status.card import Card, Process, choose
from vllm_doctor.gpu_status.reader import cards_in, line_numbers

__all__ = ["Card", "Process", "cards_in", "choose", "line_numbers"]
