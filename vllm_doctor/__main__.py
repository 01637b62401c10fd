"""Run the command line as `python -m vllm_doctor`."""

from vllm_doctor.cli import main

main()
