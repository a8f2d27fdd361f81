#!/usr/bin/env bash
# Runs the tests of the rewriter with a rewriter that is built with AddressSanitizer, which finds uses of freed memory. On one core, the build takes ten
# minutes and the tests take five.
#
#   scripts/nightly_coalesce_asan.sh      run ./test first: the tests of programs use its build of the preset `host`
#
# Exit codes: 0 passed, 1 a test failed, 2 the rewriter could not be built.
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
# Clang keeps its memory until the process ends, so leaks are not reported.
export ASAN_OPTIONS=detect_leaks=0 GPUHEAP_COALESCE=$PWD/$build/tools/coalesce/gpuheap-coalesce
python -m pytest -q tests/coalesce
