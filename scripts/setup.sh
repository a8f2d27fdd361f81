# shellcheck shell=bash disable=SC2034
# ./demo, ./test and .ci/run source this file in bash. It finds or fetches the tools that they need, on any Debian or Ubuntu with Python 3.10+ and g++.
#
# Everything is installed into build/: build/venv (Python packages, CMake, Ninja, libcu++), build/deps (Debian packages, without root), build/logs.
# Only missing tools are fetched. A tool that cannot be fetched is not an error: `skip` notes which part is skipped without it.

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
root=$PWD
logs=$root/build/logs
deps=$root/build/deps
python=$root/build/venv/bin/python
mkdir -p "$logs"
skipped=()         # the skipped parts: lines that are printed at the end
gpu_skipped=()     # the skipped parts that need a GPU
test_skipped=()    # the parts that only tests of pytest or CTest skipped
SECONDS=0

export GPUHEAP_STARTED=$EPOCHSECONDS
export GPUHEAP_SAID=$logs/said  # the time of this file is that of the last line which a person saw

# CONTRIBUTING.md tells a person to source this file in an interactive shell. That shell keeps its traps, and is not ended.
interactive=false
case $- in *i*) interactive=true ;; esac

say() {
  printf '[%3ds] %s\n' "$SECONDS" "$*"
  touch "$GPUHEAP_SAID"
}
fail() {
  printf 'error: %s\n' "$*" >&2
  end_beside
  if $interactive; then kill -INT $$; fi  # back to the person's prompt
  exit 2
}

# skip "WHAT: WHY AND WHAT TO DO": notes a skipped part, once for each WHAT.
skip() {
  local line
  for line in "${skipped[@]}"; do [ "${line%%: *}" != "${*%%: *}" ] || return 0; done
  skipped+=("$*")
}

# beside NAME COMMAND...: begins a program or a function of this file beside what follows, with its output in build/logs/NAME.log. `ended NAME` waits for it, and
# returns its exit code, or 0 if it was never begun. What fails so is tried again where it is needed.
declare -A begun=()
beside() {
  local name=$1
  shift
  if declare -F "$1" >/dev/null; then set -- bash -c '. scripts/setup.sh && "$@"' bash "$@"; fi
  # It reports no progress: the steps do.
  GPUHEAP_PROGRESS_S=86400 "${system_python:-python3}" scripts/step.py "$name" "$logs/$name.log" env "PATH=$PATH" "$@" &
  begun[$name]=$!
}
ended() {
  local job=${begun[$1]:-}
  [ -n "$job" ] || return 0
  unset "begun[$1]"
  if kill -0 "$job" 2>/dev/null; then say "waiting for $1"; fi
  wait "$job"
}
end_beside() {
  local job
  for job in "${begun[@]}"; do
    while kill -INT "$job" 2>/dev/null; do sleep 0.2; done
  done
}

# interrupted: ends the script if a person interrupts it. A step runs in a session of its own, and ends the processes that it started.
step=
interrupted() {
  trap '' INT TERM HUP
  end_beside
  [ -n "$step" ] || step=$(jobs -pr)  # a step may have begun just now
  if [ -n "$step" ]; then
    # The signal is repeated, because a process that has just started ignores it.
    while kill -INT "$step" 2>/dev/null; do sleep 0.2; done
    wait "$step" || true
  fi
  printf 'interrupted after %d s: the same command goes on from what is built\n' "$SECONDS" >&2
  exit 130
}
$interactive || trap interrupted INT TERM HUP

# step NAME LOG COMMAND...: runs a program or a function of this file by step.py; LOG is a file or -.
step() {
  local name=$1 log=$2 code=0
  shift 2
  if declare -F "$1" >/dev/null; then set -- bash -c '. scripts/setup.sh && "$@"' bash "$@"; fi
  set -- env "PATH=$PATH" "$@"  # python3 may be a script that puts other folders first on PATH
  if $interactive; then
    "${system_python:-python3}" scripts/step.py "$name" "$log" "$@"
    return
  fi
  "${system_python:-python3}" scripts/step.py "$name" "$log" "$@" &
  step=$!
  wait "$step" || code=$?
  step=
  [ "$code" != 130 ] || interrupted
  return "$code"
}

# logged NAME COMMAND...: runs a command with its output in build/logs/NAME.log, and reports its progress. Prints the log's end if the command fails.
logged() {
  local name=$1
  shift
  step "$name" "$logs/$name.log" "$@" && return 0
  tail -n 30 "$logs/$name.log" >&2
  printf 'the whole log: %s\n' "build/logs/$name.log" >&2
  return 1
}

is_root() { [ "$(id -u)" = 0 ]; }
have() { command -v "$1" >/dev/null 2>&1; }

# apt_install PACKAGE...: installs packages as root. Tries the existing package lists before it fetches new ones.
apt_install() {
  local options=(-y -q --no-install-recommends -o DPkg::Lock::Timeout=300)
  export DEBIAN_FRONTEND=noninteractive
  apt-get install "${options[@]}" "$@" || { apt-get update -q && apt-get install "${options[@]}" "$@"; }
}

# apt_unpack PACKAGE...: works for any user. Downloads the packages and their missing dependencies, and unpacks them into build/deps.
apt_unpack() {
  local own=(-o "Dir::State::Lists=$deps/lists" -o "Dir::Cache=$deps/cache" -o Debug::NoLocking=1) names
  mkdir -p "$deps/lists/partial" "$deps/cache/archives/partial" "$deps/debs"
  # Package lists of the last hour are new enough.
  [ -n "$(find "$deps/lists" -maxdepth 1 -name '*_Packages*' -mmin -60)" ] || apt-get "${own[@]}" -q update || return 1
  names=$(apt-get "${own[@]}" -s --no-install-recommends install "$@" | awk '/^Inst / {print $2}') || return 1
  # shellcheck disable=SC2086  # the list is split into one word for each package
  (cd "$deps/debs" && apt-get "${own[@]}" -q download $names) || return 1
  for deb in "$deps"/debs/*.deb; do dpkg -x "$deb" "$deps" || return 1; done
}

# links HEADER LIBRARY: whether g++ finds the header and the library, in the system or in build/deps.
links() {
  echo 'int main() {}' | g++ -std=c++20 -include "$1" -x c++ - -I"$deps/usr/include" "-L$deps/usr/lib/$(g++ -dumpmachine)" "-l$2" -o /dev/null 2>/dev/null
}

# need_library PACKAGE HEADER LIBRARY WHAT_IT_IS_FOR: installs a missing library. If that fails, notes that WHAT_IT_IS_FOR is skipped, and returns 1.
need_library() {
  links "$2" "$3" && return 0
  if have apt-get && have dpkg; then
    say "installing $1"
    if is_root; then logged "apt-$1" apt_install "$1" || true; else logged "apt-$1" apt_unpack "$1" || true; fi
    links "$2" "$3" && return 0
  fi
  skip "$4: needs the library $3 ($2): sudo apt-get install $1"
  return 1
}

# has_opencl_device: whether a program finds an OpenCL device, with the drivers of build/deps if there are any.
has_opencl_device() {
  local vendors=$deps/etc/OpenCL/vendors probe=$root/build/opencl_probe libraries
  libraries=$deps/usr/lib/$(g++ -dumpmachine)
  if [ -d "$vendors" ] && [ -z "${OCL_ICD_VENDORS:-}" ]; then
    export OCL_ICD_VENDORS=$vendors LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  fi
  printf '%s\n' '#define CL_TARGET_OPENCL_VERSION 120' '#include <CL/cl.h>' 'int main() {' '  cl_platform_id p[8];' '  cl_uint n = 0, found = 0;' \
    '  if (clGetPlatformIDs(8, p, &n) != CL_SUCCESS) return 1;' \
    '  for (cl_uint i = 0; i < n && i < 8; ++i) if (clGetDeviceIDs(p[i], CL_DEVICE_TYPE_ALL, 0, nullptr, &found) == CL_SUCCESS && found) return 0;' \
    '  return 1;' '}' | g++ -x c++ - -I"$deps/usr/include" "-L$libraries" -lOpenCL -o "$probe" 2>/dev/null &&
    bash -c '"$0"; exit' "$probe" 2>/dev/null  # a shell of its own, which prints nothing if the library aborts
}

# need_opencl WHAT_IT_IS_FOR: as need_library, for OpenCL's headers and loader, and a device: a GPU, or the CPU with PoCL.
need_opencl() {
  need_library ocl-icd-opencl-dev CL/cl.h OpenCL "$1" || return 1
  has_opencl_device && return 0
  if have apt-get && have dpkg && ! compgen -G "$deps/usr/lib/*/libpocl.so*" >/dev/null; then
    say "installing pocl-opencl-icd"
    if is_root; then logged apt-pocl apt_install pocl-opencl-icd || true; else logged apt-pocl apt_unpack pocl-opencl-icd || true; fi
    has_opencl_device && return 0
  fi
  skip "$1: needs an OpenCL device: sudo apt-get install pocl-opencl-icd"
  return 1
}

# has_openmpi: whether Open MPI's compiler and its mpirun are in the system.
has_openmpi() { have mpicxx && have mpirun; }

# need_openmpi WHAT_IT_IS_FOR: as need_library, for Open MPI. Installs it only as root, because it does not find its own parts in build/deps.
need_openmpi() {
  has_openmpi && return 0
  if is_root && have apt-get; then
    say "installing openmpi-bin and libopenmpi-dev"
    logged apt-openmpi apt_install openmpi-bin libopenmpi-dev || true
    has_openmpi && return 0
  fi
  skip "$1: needs Open MPI: sudo apt-get install openmpi-bin libopenmpi-dev"
  return 1
}

# has_fuzzer: whether scripts/nightly_fuzz.py finds a clang that links libFuzzer.
has_fuzzer() { python3 -c 'import sys; sys.path.insert(0, "scripts"); import nightly_fuzz; nightly_fuzz.find_clang()' 2>/dev/null; }

# need_fuzzer WHAT_IT_IS_FOR: as need_library, for such a clang. Installs it only as root.
need_fuzzer() {
  has_fuzzer && return 0
  if is_root && have apt-get; then
    say "installing clang-19 and libclang-rt-19-dev"
    logged apt-fuzzer apt_install clang-19 libclang-rt-19-dev || true
    has_fuzzer && return 0
  fi
  skip "$1: needs clang with libFuzzer: sudo apt-get install clang-19 libclang-rt-19-dev"
  return 1
}

# has_clang_tooling: whether Clang's libraries of version 19.1 are in the system.
has_clang_tooling() {
  local llvm=/usr/lib/llvm-19
  [ -e $llvm/include/clang/Tooling/Tooling.h ] && [ -e $llvm/include/llvm/Support/JSON.h ] && [ -e $llvm/lib/libclang-cpp.so.19.1 ]
}

# need_clang_tooling WHAT_IT_IS_FOR: as need_library, for these libraries. Installs them only as root, because they do not find each other in build/deps.
need_clang_tooling() {
  has_clang_tooling && return 0
  if is_root && have apt-get; then
    say "installing llvm-19-dev and libclang-19-dev: 137 MB to fetch, 1 GB installed"
    logged apt-llvm apt_install llvm-19-dev libclang-19-dev || true
    has_clang_tooling && return 0
  fi
  skip "$1: needs Clang 19.1: sudo apt-get install llvm-19-dev libclang-19-dev"
  return 1
}

# has_device_clang: whether one of the clangs is installed that capi/CMakeLists.txt looks for.
has_device_clang() { have clang++-22 || have clang++-21 || have clang++-20 || have clang++-19; }

# need_device_clang WHAT_IT_IS_FOR: as need_library, for such a clang. Installs it only as root, because it does not find its own parts in build/deps.
need_device_clang() {
  has_device_clang && return 0
  if is_root && have apt-get; then
    say "installing clang-19"
    logged apt-clang-19 apt_install clang-19 || true
    has_device_clang && return 0
  fi
  skip "$1: needs clang 19 or newer: sudo apt-get install clang-19"
  return 1
}

# The environments beside build/venv: the file of each one's packages, and what it is.
declare -A packages_of=([docs]=docs/requirements.txt [kernels]=python/requirements-kernels.txt)
declare -A told_of=([docs]="Sphinx: half a minute and 90 MB" [kernels]="Numba, Triton: a minute or two and 1.7 GB")

# has_venv NAME: whether build/venv-NAME has its packages.
has_venv() {
  [ "$(cat "build/venv-$1/.requirements" 2>/dev/null)" = "$(sha256sum <"${packages_of[$1]}")" ] && "build/venv-$1/bin/python" -c '' 2>/dev/null
}

# make_venv_beside NAME: makes build/venv-NAME. The pip of build/venv installs the packages, because the system's Python may have no ensurepip.
make_venv_beside() {
  rm -rf "build/venv-$1"
  "$system_python" -m venv --without-pip "build/venv-$1" &&
    "$python" -m pip --python "build/venv-$1/bin/python" install "${pip_options[@]}" -r "${packages_of[$1]}" &&
    sha256sum <"${packages_of[$1]}" >"build/venv-$1/.requirements"
}

# need_venv NAME WHAT_IT_IS_FOR: as need_library, for build/venv-NAME.
need_venv() {
  ended "venv-$1" || true
  has_venv "$1" && return 0
  say "setting up build/venv-$1 (${told_of[$1]})"
  logged "venv-$1" make_venv_beside "$1" || { skip "$2: its Python packages cannot be installed: see build/logs/venv-$1.log" && return 1; }
}

# need_docs WHAT_IT_IS_FOR: as need_library, for Doxygen and build/venv-docs.
need_docs() {
  if ! have doxygen && have apt-get && is_root; then
    say "installing doxygen"
    logged apt-doxygen apt_install doxygen || true
  fi
  have doxygen || { skip "$1: needs Doxygen: sudo apt-get install doxygen" && return 1; }
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { skip "$1: needs Python 3.11 or newer, and build/venv has $("$python" -V)" && return 1; }
  need_venv docs "$1"
}

# make_venv: makes build/venv. If Python has no ensurepip, as Debian's without the package python3-venv, pip is installed from Debian's wheel of pip.
make_venv() {
  local wheel
  rm -rf build/venv
  if "$system_python" -c 'import ensurepip' 2>/dev/null; then
    "$system_python" -m venv build/venv
    return
  fi
  if is_root; then apt_install python3-pip-whl; else apt_unpack python3-pip-whl; fi || return 1
  # shellcheck disable=SC2012  # the names are a package's own
  wheel=$(ls /usr/share/python-wheels/pip-*.whl "$deps"/usr/share/python-wheels/pip-*.whl 2>/dev/null | head -n 1)
  [ -n "$wheel" ] || return 1
  "$system_python" -m venv --without-pip build/venv && "$python" "$wheel/pip" install --no-index --find-links "$(dirname "$wheel")" pip
}

# Packages are compiled when they are imported first: a third of pip's time goes into compiling all of them.
pip_options=(--disable-pip-version-check --no-compile)

# install_packages: installs the packages of build/venv.
install_packages() { "$python" -m pip install "${pip_options[@]}" "${requirements[@]/#/-r}"; }

# setup_python [NAME...]: makes build/venv with the pinned packages, unless it already has them; if it has not, begins build/venv-NAME beside what follows, for which
# need_venv waits.
requirements=(python/requirements-build.txt python/requirements.txt)
setup_python() {
  local stamp=build/venv/.requirements wanted
  have g++ || fail "no C++ compiler: sudo apt-get install g++"
  echo 'int main() { auto f = []<class T>(T) requires true {}; f(0); }' | g++ -std=c++20 -x c++ - -o /dev/null 2>/dev/null ||
    fail "g++ is too old for C++20: version 11 or newer is needed, and this is $(g++ -dumpversion)"
  # The Python of build/venv is not used, because it may be replaced below.
  system_python=$(PATH=${PATH//"$root/build/venv/bin:"/} && command -v python3) || fail "no Python: sudo apt-get install python3"
  export system_python
  "$system_python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || fail "Python 3.10 or newer is needed, and $system_python is $("$system_python" --version)"
  wanted=$(cat "${requirements[@]}" | sha256sum)
  [ "$(cat $stamp 2>/dev/null)" = "$wanted" ] && "$python" -c '' 2>/dev/null && return 0
  say "setting up build/venv (CMake, Ninja, Python packages): about a minute and 400 MB"
  logged venv make_venv || fail "cannot make a Python environment: sudo apt-get install python3-venv"
  local name
  for name in "$@"; do beside "venv-$name" make_venv_beside "$name"; done
  logged pip install_packages || fail "cannot install the Python packages: see build/logs/pip.log"
  echo "$wanted" >$stamp
}

# setup_machine: sets have_gpu and have_nvcc, and the environment for the tools.
setup_machine() {
  have nvcc || [ ! -x /usr/local/cuda/bin/nvcc ] || PATH=/usr/local/cuda/bin:$PATH
  PATH=$root/build/venv/bin:$PATH
  # Matplotlib keeps its font list in build/ too, so that it does not warn about a home folder that it cannot write.
  export MPLCONFIGDIR=${MPLCONFIGDIR:-$root/build/matplotlib}
  # Some container images set this. Each of the many commands that the tests run would compile the package again.
  unset PYTHONDONTWRITEBYTECODE
  # The commands compute little with numpy, which would start a thread on each core in each of them.
  export OPENBLAS_NUM_THREADS=${OPENBLAS_NUM_THREADS:-1}
  export PATH PYTHONPATH=$root/python CMAKE_PREFIX_PATH=$deps/usr CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}
  have_nvcc=false
  have_gpu=false
  if have nvcc; then have_nvcc=true; fi
  if have nvidia-smi && nvidia-smi -L 2>/dev/null | grep -q '^GPU'; then have_gpu=true; fi
}

# configure PRESET OPTIONS...: configures a preset, and notes the parts that CMake skips.
configure() {
  local preset=$1 line
  shift
  logged "configure-$preset" cmake --preset "$preset" "$@" || fail "cannot configure the preset $preset"
  while read -r line; do skip "$line"; done < <(sed -n 's/^-- skipped: //p' "$logs/configure-$preset.log")
}

# build PRESET TARGETS...: builds the targets, or all if none is named.
build() {
  local preset=$1
  shift
  logged "build-$preset" cmake --build --preset "$preset" "${@/#/--target=}" || fail "cannot build the preset $preset"
}

# skipped_by_pytest: notes the parts that the Python tests skipped, from their log. A part that is noted already only gets the number of tests of all its reasons.
skipped_by_pytest() {
  local line what number of before
  while read -r line; do
    number=${line##* (} what=${line%%: *}
    for of in skipped gpu_skipped; do
      local -n told=$of
      local index
      for index in "${!told[@]}"; do
        if [ "${told[$index]%%: *}" = "$what" ]; then
          before=0
          if [[ ${told[index]} =~ ^(.*)" ("([0-9]+)" of the Python tests)"$ ]]; then
            told[index]=${BASH_REMATCH[1]} before=${BASH_REMATCH[2]}
          fi
          told[index]+=" ($((before + ${number%% *})) of the Python tests)"
          continue 3
        fi
      done
    done
    test_skipped+=("$line")
  done < <(sed -n 's/^skipped: //p' "$logs/pytest.log")
}

# skipped_by_ctest JUNIT: notes the parts that C++ tests skipped, once for each WHAT. A test without a result was not skipped.
skipped_by_ctest() {
  local line told
  [ -e "$1" ] || return 0
  while read -r line; do
    for told in "${test_skipped[@]}"; do [ "${told%%: *}" != "${line%%: *}" ] || continue 2; done
    test_skipped+=("$line")
  done < <("${system_python:-python3}" scripts/skipped_tests.py "$1")
}

# report_skipped: prints the skipped parts with their reasons. Sets num_skipped to the number of parts in `skipped`, which need no GPU.
report_skipped() {
  local line
  num_skipped=${#skipped[@]}
  for line in "${skipped[@]}" "${gpu_skipped[@]}" "${test_skipped[@]}"; do printf 'skipped: %s\n' "$line"; done
}
