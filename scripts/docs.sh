#!/usr/bin/env bash
# Builds the documentation site from docs/ and the headers' comments. Warnings are errors.
set -euo pipefail
cd "$(dirname "$0")/.."

usage="usage: scripts/docs.sh [--help]

  Builds the documentation: build/docs/html/index.html, which opens in a browser without a server. It takes a minute at first, and then 20 seconds.
  It needs Doxygen (sudo apt-get install doxygen) and Python 3.11. The packages of docs/requirements.txt are installed into build/venv-docs.

  Exit code: 0 if the site is built without a warning, 1 if a page has a mistake, 2 if a tool is missing."
case ${1:-} in
  '') ;;
  -h | --help)
    printf '%s\n' "$usage"
    exit 0
    ;;
  *)
    printf "scripts/docs.sh: unknown option '%s': the only option is --help\n" "$1" >&2
    exit 2
    ;;
esac
# shellcheck source=scripts/setup.sh
. scripts/setup.sh

setup_python
setup_machine
need_docs "the documentation site" || fail "${skipped[-1]}"
mkdir -p build/docs
"$python" scripts/command_help.py build/docs/commands.json
{
  cat docs/_site/Doxyfile
  printf 'OUTPUT_DIRECTORY = build/docs/doxygen\nFILTER_PATTERNS = "*.hpp=%s docs/_site/doxygen_filter.py"\n' "$python"
} >build/docs/Doxyfile
step "comments of the headers" "$logs/doxygen.log" doxygen build/docs/Doxyfile || fail "Doxygen failed: see build/logs/doxygen.log"
if grep -q 'warning:' "$logs/doxygen.log"; then
  grep 'warning:' "$logs/doxygen.log" >&2
  exit 1
fi
say "building build/docs/html"
if ! step "the site" "$logs/sphinx.log" env GPUHEAP_COMMAND_HELP="$root/build/docs/commands.json" GPUHEAP_DOXYGEN_XML="$root/build/docs/doxygen/xml" \
  build/venv-docs/bin/python -m sphinx -q -E -W --keep-going -b html -d build/docs/doctrees docs build/docs/html; then
  cat "$logs/sphinx.log" >&2
  exit 1
fi
say "built: open build/docs/html/index.html"
