#!/usr/bin/env bash
# Runs clang-tidy with the checks of .clang-tidy over the sources that the preset host compiles.
set -euo pipefail
cd "$(dirname "$0")/.."

usage="usage: scripts/tidy.sh [PART]

  Checks each source file whose path contains PART, with the headers that it includes; without PART, checks all source files.
  A file takes about 20 s of one core. Needs clang-tidy, and a build by ./test or: cmake --preset host.
  Exit code: 0 if nothing was found, 1 if something was found, 2 if clang-tidy cannot run."
case ${1:-} in
  -h | --help)
    printf '%s\n' "$usage"
    exit 0
    ;;
  -*)
    printf "scripts/tidy.sh: unknown option '%s': the only option is --help\n" "$1" >&2
    exit 2
    ;;
esac
command -v run-clang-tidy >/dev/null || { echo "error: no run-clang-tidy on PATH: sudo apt-get install clang-tidy" >&2; exit 2; }
[ -e build/host/compile_commands.json ] || { echo "error: build/host is not configured: run cmake --preset host" >&2; exit 2; }

# Generated sources are left out, because they only include headers that other files include too.
part=$(printf '%s' "${1:-}" | sed 's/[][\.*^$+?(){}|]/\\&/g')
sources="^$PWD/(?=(benchmarks|examples|opencl|simulator|tests|tools)/).*$part"
found=$(python3 -c 'import json, re, sys; print(sum(bool(re.search(sys.argv[1], each["file"])) for each in json.load(open("build/host/compile_commands.json"))))' "$sources")
[ "$found" != 0 ] || { printf "error: no source of build/host has '%s' in its path\n" "${1:-}" >&2; exit 2; }
printf 'checking %s files\n' "$found"
# g++ has warning options that clang does not know.
run-clang-tidy -quiet -p build/host -j "$(nproc)" -extra-arg=-Wno-unknown-warning-option "$sources" 2>/dev/null |
  { grep -v '^clang-tidy' || true; } || exit 1
