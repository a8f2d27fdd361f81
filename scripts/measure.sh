#!/usr/bin/env bash
# Builds the benchmark with every variant, and measures the tables of results/ on the GPUs of this machine, in the order in which pages need
# them. The command ends after MINUTES, and the repeated command continues, on another machine of the same kind too if FOLDER comes along.
#
#   scripts/measure.sh MINUTES [FOLDER [CMAKE_OPTION...]]     # FOLDER: build/tables
#
# All suites together take some hours of one GPU. The build takes three minutes on 16 cores.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if ! [[ ${1:-} =~ ^[0-9]+(\.[0-9]+)?$ ]]; then
  printf "scripts/measure.sh: '%s' is not a number of minutes: usage: scripts/measure.sh MINUTES [FOLDER [CMAKE_OPTION...]]\n" "${1:-}" >&2
  exit 2
fi
minutes=$1 folder=${2:-build/tables}
export PYTHONPATH=$PWD/python PYTHONUNBUFFERED=1
targets=(gpuheap-bench gpuheap_host gpuheap_host_merging benchmarks/programs/all tools/host/all)
cmake --preset cuda -DGPUHEAP_BENCH_KINDS=ON -DGPUHEAP_BENCH_ABLATION=ON "${@:3}"
cmake --build --preset cuda --target "${targets[@]}"

# `--quick` leaves few points of each sweep; 20 runs tell a median well enough for a verdict.
few=(--quick --runs 20 --enough 0.5 --timeout 3)
parts=(
  "heap"
  "survey gallatin regeff --for-claims ${few[*]}"
  "stress ${few[*]}"
  "kinds"
  "ablation --enough 0.2"
  "quick"
  "counters"
  "probe"
  "programs rules --for-claims"
  "coalescing ${few[*]}"
  "survey ${few[*]}"
  "gallatin ${few[*]}"
  "regeff ${few[*]}"
)
mkdir -p "$folder"
SECONDS=0
for part in "${parts[@]}"; do
  left=$(python3 -c "print(f'{$minutes - $SECONDS / 60:.2f}')")
  case $left in -* | 0.0* | 0.1*) break ;; esac
  echo "== $part: $left minutes are left"
  # A part that fails, because a program is missing for example, leaves the others.
  # shellcheck disable=SC2086  # a part is a list of words
  python3 -m gpuheap bench $part --backend cuda --gpus all --output "$folder" --minutes "$left" || { code=$?; [ "$code" != 130 ] || exit 130; }
done
echo "to make these the recorded tables: python -m gpuheap merge $folder --anew, then python docs/refresh.py --sentences"
