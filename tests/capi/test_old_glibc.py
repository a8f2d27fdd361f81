"""Libraries that are linked as those of the wheel ask for an old glibc, and what stands for newer functions does what they do."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
from old_glibc import link  # noqa: E402

CODE = r"""
#include <dlfcn.h>
#include <fcntl.h>
#include <semaphore.h>
#include <sys/stat.h>
#include <unistd.h>
#include <filesystem>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
extern "C" __attribute__((visibility("default"))) int probe(char const* file, int size) {
  struct stat found;
  if (stat(file, &found) != 0 || found.st_size != size) return 1;
  if (lstat("/absent", &found) == 0) return 2;
  int const opened = open(file, O_RDONLY);
  struct stat64 large;
  if (fstat(opened, &found) != 0 || found.st_size != size || fstat64(opened, &large) != 0 || large.st_size != size) return 3;
  close(opened);
  if (!std::filesystem::is_directory("/proc")) return 4;
  std::random_device numbers;
  auto const first = numbers();
  if (first == numbers() && first == numbers()) return 5;
  int called = 0;
  std::once_flag once;
  for (int i = 0; i < 2; ++i) std::call_once(once, [&] { ++called; });
  std::thread([&] {
    try {
      throw std::runtime_error("of a thread " + std::to_string(size));
    } catch (std::exception const& e) {
      called += e.what()[0] == 'o';
    }
  }).join();
  sem_t semaphore;
  if (sem_init(&semaphore, 0, 1) != 0 || sem_trywait(&semaphore) != 0 || sem_trywait(&semaphore) == 0) return 6;
  if (dlsym(RTLD_DEFAULT, "malloc") == nullptr) return 7;
  try {
    (void)std::string("short").at(static_cast<std::size_t>(size) + 100);
  } catch (std::out_of_range const&) {
    return called == 2 ? 0 : 8;
  }
  return 9;
}
"""


def test_functions_of_newer_versions(tmp_path: Path) -> None:
    (tmp_path / "probe.cpp").write_text(CODE)
    library = tmp_path / "probe.so"
    command = ["g++", "-std=c++20", "-D_GNU_SOURCE", "-fPIC", "-shared", "-fvisibility=hidden", *link.flags(tmp_path / "stubs"), str(tmp_path / "probe.cpp")]
    subprocess.run([*command, "-static-libstdc++", "-static-libgcc", "-Wl,--exclude-libs,ALL", "-Wl,-z,defs", "-o", str(library)], check=True)
    assert link.newest_version(library) <= link.NEWEST
    exported = subprocess.run(["nm", "-D", "--defined-only", str(library)], capture_output=True, text=True, check=True).stdout
    names = {line.split()[-1] for line in exported.splitlines()}
    assert "probe" in names and names & {"arc4random", "stat", "lstat", "fstat", "fstat64", "_dl_find_object", "__libc_single_threaded"} == set()
    size = (tmp_path / "probe.cpp").stat().st_size
    assert ctypes.CDLL(str(library)).probe(str(tmp_path / "probe.cpp").encode(), size) == 0
