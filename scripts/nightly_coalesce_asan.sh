#!/usr/bin/env bash
# The tests of the rewriter with the tool under AddressSanitizer, which sees what is used after it was freed. Ten minutes of one core to build, five to run.
#
#   scripts/nightly_coalesce_asan.sh      after ./test, whose build of the preset `host` the tests of programs use
#
# Exit codes: 0 passed, 1 a test failed, 2 it could not be built.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/setup.sh
setup_python
setup_machine
build=build/coalesce-asan
say "building the rewriter under AddressSanitizer"
logged configure-coalesce-asan cmake --preset host -B $build -DGPUHEAP_BUILD_TESTS=OFF -DGPUHEAP_BUILD_BENCHMARKS=OFF -DGPUHEAP_BUILD_EXAMPLES=OFF \
  -DGPUHEAP_ENABLE_OPENCL=OFF -DGPUHEAP_ENABLE_COALESCE=ON "-DCMAKE_CXX_FLAGS=-fsanitize=address -fno-omit-frame-pointer" || fail "cannot configure $build"
logged build-coalesce-asan cmake --build $build --target gpuheap_coalesce || fail "cannot build the rewriter under AddressSanitizer"
# Clang keeps what it has until the process ends: that is no leak of ours to find.
export ASAN_OPTIONS=detect_leaks=0 GPUHEAP_COALESCE=$PWD/$build/tools/coalesce/gpuheap-coalesce
python -m pytest -q tests/coalesce
