"""The plan of a `gpuheap bench` command: its sweeps, their points and limits."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpuheap.catalogue import is_known, ordered
from gpuheap.errors import UserError, did_you_mean, unknown_name
from gpuheap.files import check_beginning, check_file
from gpuheap.formats.points import DEFAULT_SEED, Point
from gpuheap.formats.suites import Case, Suite, select
from gpuheap.running.executable import Executable, build_command
from gpuheap.units import format_bytes

# The axes that choose a generated graph. A file that the user gives replaces them.
GENERATED_GRAPH_AXES = ("graph", "scale", "edge_factor")
# The axes that choose a generated scene.
GENERATED_SCENE_AXES = ("scene", "triangles")
# The axes that choose one of the recordings that come with the benchmarks.
RECORDING_AXES = ("trace",)
STOOD_IN_FOR = {"graph": GENERATED_GRAPH_AXES, "scene": GENERATED_SCENE_AXES, "trace": RECORDING_AXES}
READABLE = {"graph": "a Matrix Market file", "scene": "an OBJ or PLY file", "trace": "a recording of gpuheap::recorded"}
# The first bytes of a graph's and a recording's file, and the suffixes of a scene's file name. Any other file is refused before anything is measured.
BEGINNINGS = {"graph": b"%%MatrixMarket", "trace": b"gpuheap-trace"}
SCENE_ENDINGS = (".obj", ".ply")
READERS = {"graph": "graph_update", "scene": "kdtree", "trace": "replay"}  # for each option, a case that reads its file
CASES_ON_NEW_HEAPS = ("fragmentation", "init")  # cases whose points need a new heap, in addition to all points with state=cold
# The keys that decide the size of a point's own heap.
HEAP_AXES = ("heap", "times_root", *GENERATED_SCENE_AXES)
# The largest share of the device's free memory that a heap may take. A size that the user names may take more.
LARGEST_SHARE_OF_FREE_MEMORY = 0.75


@dataclass(frozen=True)
class Request:
    """The command line of `gpuheap bench`."""

    targets: tuple[str, ...]
    allocators: tuple[str, ...] = ()  # empty: the suite's, else all; with `outside`: none
    baselines: bool = True  # whether to add the baselines that the suite names
    runs: int | None = None
    timeout_s: float | None = None
    enough_s: float | None = None
    quick: bool = False
    full: bool = False
    seed: int | None = None
    heap_bytes: int | None = None
    graph: Path | None = None
    scene: Path | None = None
    trace: Path | None = None
    outside: str = ""  # an allocator with an executable of its own, which takes part in all suites but those of baselines alone

    @property
    def files(self) -> dict[str, Path]:
        """The user's files by the parameter of the cases that read them. They replace generated inputs and inputs that come with the benchmarks."""
        named = {"graph": self.graph, "scene": self.scene, "trace": self.trace}
        return {name: path for name, path in named.items() if path is not None}

    @property
    def chosen_seed(self) -> int:
        return DEFAULT_SEED if self.seed is None else self.seed


@dataclass(frozen=True)
class PlannedSweep:
    suite: Suite
    case: Case
    allocator: str
    points: tuple[Point, ...]
    heap_bytes: int
    executable: Executable  # the executable that contains the allocator
    extra: str  # values that the command line sets for all points, as key=value;... in the column `parameter`
    retry: bool = False  # whether failed points are measured again
    first_runs: bool = False  # whether each run needs a process of its own, because the heap belongs to the process and each run needs a new heap


@dataclass(frozen=True)
class Plan:
    sweeps: tuple[PlannedSweep, ...]
    notes: tuple[str, ...] = field(default=())
    whole: tuple[PlannedSweep, ...] = ()  # all sweeps, if `sweeps` is a part of them; empty if `sweeps` has all

    @property
    def num_points(self) -> int:
        return sum(len(sweep.points) for sweep in self.sweeps)


def make_plan(request: Request, suites: Mapping[str, Suite], executable: Executable, outside: Executable | None = None) -> Plan:
    """The sweeps in the order in which they run: case by case, each over its allocators. Raises UserError for names that do not exist.

    `outside`: an executable with one further allocator, which the request names.
    """
    _check_allocators([name for name in request.allocators if name != request.outside], executable, "allocator")
    if request.quick and request.full:
        raise UserError("--quick measures fewer points and --full measures more: choose one of them")
    for option, path in request.files.items():
        check_file(path, f"--{option}", READABLE[option])
    sweeps: list[PlannedSweep] = []
    notes: list[str] = []
    taken: set[str] = set()
    for suite, case_names in select(suites, list(request.targets)):
        if not request.outside:
            if not request.allocators:
                _check_allocators(suite.allocators, executable, f"allocator of suite {suite.name}")
            notes += _left_out(suite, case_names, request, executable)
        for name in case_names:
            case = _adjusted(suite.case(name, executable.backend), request)
            described = executable.description.case(name)
            if described is None:
                there = [one.name for one in executable.description.cases]
                meant = did_you_mean(name, there)
                remedy = f"{meant} If not, build it again" if meant else f"build it again, or name one of {', '.join(sorted(there))}"
                raise UserError(f"{executable.path} has no case '{name}' of suite '{suite.name}': {remedy}")
            files = {key: path for key, path in request.files.items() if key in described.parameters}
            taken |= set(files)
            stood_in_for = {axis for key in files for axis in STOOD_IN_FOR[key]}
            if stood_in_for:
                grids = tuple({key: axis for key, axis in grid.items() if key not in stood_in_for} for grid in case.grids)
                case = dataclasses.replace(case, grids=tuple(grid for number, grid in enumerate(grids) if grid not in grids[:number]))
            for axis in case.axes:
                if axis not in described.parameters:
                    raise UserError(f"{suite.path}: {name}: {unknown_name('axis', axis, described.parameters)}")
            heap_bytes, note = _heap_bytes(case, request, executable)
            if note and note not in notes:
                notes.append(note)
            extra = _extra(case, request, suite.case(name, executable.backend), heap_bytes, files)
            for allocator in _allocators(suite, case, request, executable):
                runs_it = outside if outside is not None and allocator == request.outside else executable
                for points, first_runs in _of_one_process(allocator, case, case.points(request.chosen_seed, allocator), runs_it):
                    sweeps.append(PlannedSweep(suite, case, allocator, points, heap_bytes, runs_it, extra, first_runs=first_runs))
    for option, path in request.files.items():
        if option not in taken:
            raise UserError(f"--{option}: none of the chosen cases reads a {option}; {READERS[option]} does")
        if option == "scene" and path.suffix.lower() not in SCENE_ENDINGS:
            raise UserError(f"--scene: the name of '{path}' does not end with {' or '.join(SCENE_ENDINGS)}: expected {READABLE[option]}")
        check_beginning(path, f"--{option}", READABLE[option], BEGINNINGS.get(option, b""))
    if not sweeps:
        raise UserError("nothing to run: none of these allocators takes part in these cases")
    return Plan(tuple(sweeps), tuple(notes))


def baselines_last(plan: Plan) -> Plan:
    """The same sweeps, those of baselines after all others: a stop in between then leaves what the suites are about."""
    return dataclasses.replace(plan, sweeps=tuple(sorted(plan.sweeps, key=lambda sweep: sweep.allocator in sweep.case.baselines)))


def _check_allocators(names: Sequence[str], executable: Executable, kind: str) -> None:
    """Raises UserError if the executable lacks one of the names."""
    known = [a.name for a in executable.description.allocators] + list(executable.description.baselines)
    missing = [name for name in names if name not in known]
    if lacking := [name for name in missing if is_known(name)]:
        build = build_command(executable.backend, "-DGPUHEAP_BENCH_ONLY=")
        raise UserError(f"{executable.path} was built without {', '.join(lacking)}: build it with all allocators, by `{build}`")
    if missing:
        raise unknown_name(kind, missing[0], known)


def _left_out(suite: Suite, case_names: Sequence[str], request: Request, executable: Executable) -> list[str]:
    """Says which baselines the executable was built without."""
    description = executable.description
    known = {a.name for a in description.allocators} | set(description.baselines)
    named = ordered(name for case in case_names for name in suite.case(case, executable.backend).baselines)
    lacking = [name for name in named if name not in known] if request.baselines else []
    return [f"{suite.name}: {executable.path} was built without {', '.join(lacking)}"] if lacking else []


def _allocators(suite: Suite, case: Case, request: Request, executable: Executable) -> list[str]:
    """The allocators and baselines that take part in a case. A baseline takes part only in the cases that name it."""
    description = executable.description
    known = {a.name for a in description.allocators} | set(description.baselines)
    chosen = request.allocators or suite.allocators or tuple(a.name for a in description.allocators)
    # In a suite that names only baselines, such as `structures`, no allocator takes part.
    if request.outside and not (suite.allocators and set(suite.allocators) <= set(description.baselines)):
        chosen = (*request.allocators, request.outside)
    added = tuple(name for name in case.baselines if name in known) if request.baselines else ()
    return ordered(name for name in chosen + added if name not in description.baselines or name in case.baselines)


def _of_one_process(allocator: str, case: Case, points: tuple[Point, ...], executable: Executable) -> list[tuple[tuple[Point, ...], bool]]:
    """The points in groups that can share a process, each with whether every run of it needs a process of its own.

    Usually all points are one group. A heap that belongs to the whole process has one size in a process, and is new only once in it.
    """
    described = executable.description.allocator(allocator)
    if described is None or not described.process_wide or not described.supported:
        return [(points, False)]
    groups: dict[tuple[str | bool | None, ...], list[Point]] = {}
    for point in points:
        cold = case.name in CASES_ON_NEW_HEAPS or point.fields.get("state") == "cold"
        groups.setdefault((cold, *(point.fields.get(axis) for axis in HEAP_AXES)), []).append(point)
    return [(tuple(together), bool(kind[0])) for kind, together in groups.items()]


def _adjusted(case: Case, request: Request) -> Case:
    case = case.cut() if request.quick else case.widened() if request.full else case
    enough_s = case.enough_s if request.enough_s is None else request.enough_s
    return dataclasses.replace(case, runs=request.runs or case.runs, timeout_s=request.timeout_s or case.timeout_s, enough_s=enough_s)


def _heap_bytes(case: Case, request: Request, executable: Executable) -> tuple[int, str]:
    """The heap's size in bytes, and a note if it is less than the suite's. Raises UserError if the user's size exceeds the device's memory."""
    device = executable.description.device
    total, free = (device.total_bytes, device.free_bytes) if device is not None else (0, 0)
    if request.heap_bytes is not None:
        if total and request.heap_bytes > total:
            name = device.name if device is not None else ""
            raise UserError(
                f"a heap of {format_bytes(request.heap_bytes)} does not fit: {name} has {format_bytes(total)} ({format_bytes(free)} free)"
            )
        return request.heap_bytes, ""
    most = int((free or total) * LARGEST_SHARE_OF_FREE_MEMORY) >> 20 << 20
    if most and case.heap_bytes > most:
        return (
            most,
            f"{case.name}: a heap of {format_bytes(most)} in place of {format_bytes(case.heap_bytes)}, which does not fit into free memory",
        )
    return case.heap_bytes, ""


def _extra(case: Case, request: Request, as_written: Case, heap_bytes: int, files: Mapping[str, Path]) -> str:
    pairs: dict[str, str] = {}
    if heap_bytes != as_written.heap_bytes:
        pairs["heap"] = str(heap_bytes)
    if request.seed is not None and request.seed != DEFAULT_SEED:
        pairs["seed"] = str(request.seed)
    for key, path in files.items():
        pairs[key] = "".join(letter if letter.isprintable() and letter not in ";=" else "_" for letter in path.name)
    return ";".join(f"{key}={value}" for key, value in sorted(pairs.items()))
