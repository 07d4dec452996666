#!/bin/bash
# A run script as research code has them: its own PYTHONPATH, a log beside the output, the program at the end.
export PYTHONPATH=.
cd "$(dirname "$0")/../settings" || exit 1
python plain.py --steps "$1" --out "$2" --bad-batch "${3:--1}" 2>&1 | tee "$2/train.log"
exit "${PIPESTATUS[0]}"
