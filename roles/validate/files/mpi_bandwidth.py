# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""
Measure and check MPI collectives between CPUs, where there is no GPU; prints the table of nccl-tests.

Usage: python3 mpi_bandwidth.py COLLECTIVE [-b MIN] [-e MAX] [-f FACTOR] [-n ITERATIONS] [-w WARMUP] [-c 0|1] [-g N]
It needs nothing but Python and the runtime library of Open MPI (libmpi.so.40), and is started by srun --mpi=pmix.
"""

from __future__ import annotations

import argparse
import array
import ctypes
import os
import socket
import statistics
import sys
import time

# Seconds that the iterations of one size may take, on a network that is much slower than meant.
LONGEST = 2.0
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def size(text: str) -> int:
    """Return the bytes of 64M."""
    return int(text[:-1]) * UNITS[text[-1].upper()] if text[-1].upper() in UNITS else int(text)


class Mpi:
    """The few calls of Open MPI that are needed; its handles are the addresses of global symbols."""

    def __init__(self) -> None:
        """Start MPI."""
        self.lib = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
        self.world = self._symbol("ompi_mpi_comm_world")
        self.float = self._symbol("ompi_mpi_float")
        self.double = self._symbol("ompi_mpi_double")
        self.byte = self._symbol("ompi_mpi_byte")
        self.sum = self._symbol("ompi_mpi_op_sum")
        self.max = self._symbol("ompi_mpi_op_max")
        self.call("Init", None, None)
        # Open MPI 5.0.7 over plain TCP dies in MPI_Init when a message of a faster rank comes too early.
        time.sleep(1)
        rank, ranks = ctypes.c_int(), ctypes.c_int()
        self.call("Comm_rank", self.world, ctypes.byref(rank))
        self.call("Comm_size", self.world, ctypes.byref(ranks))
        self.rank, self.ranks = rank.value, ranks.value

    def _symbol(self, name: str) -> ctypes.c_void_p:
        return ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(self.lib, name)))

    def call(self, name: str, *arguments: object) -> None:
        """Call a function of MPI; an error of MPI is the end."""
        code = getattr(self.lib, f"MPI_{name}")(*arguments)
        if code != 0:
            print(f"{socket.gethostname()}: Test MPI failure: MPI_{name} returned {code}", flush=True)
            os._exit(3)

    def most(self, value: float) -> float:
        """Return the largest value of all ranks."""
        mine, most = ctypes.c_double(value), ctypes.c_double()
        self.call("Allreduce", ctypes.byref(mine), ctypes.byref(most), 1, self.double, self.max, self.world)
        return most.value

    def gather(self, text: str) -> list[str]:
        """Return the texts of all ranks."""
        width = 128
        mine = ctypes.create_string_buffer(text.encode()[: width - 1], width)
        everyone = ctypes.create_string_buffer(width * self.ranks)
        self.call("Allgather", mine, width, self.byte, everyone, width, self.byte, self.world)
        return [everyone.raw[i : i + width].rstrip(b"\0").decode() for i in range(0, width * self.ranks, width)]


class Collective:
    """One operation on buffers of N bytes, as nccl-tests counts them, with values that make the result known."""

    def __init__(self, mpi: Mpi, name: str, wanted: int) -> None:
        """Make buffers of about the wanted number of bytes."""
        self.mpi, self.name = mpi, name
        n = mpi.ranks
        self.block = max(1, wanted // 4 // (1 if name == "all_reduce" else n))  # floats that each rank sends to each
        self.count = self.block * (1 if name == "all_reduce" else n)
        self.bytes = self.count * 4
        mine = self.block if name in ("all_gather", "all_reduce") else self.count
        theirs = self.block if name == "reduce_scatter" else self.count
        self.send = array.array("f", [0.0]) * mine
        self.receive = array.array("f", [0.0]) * theirs
        self.fill()

    def fill(self) -> None:
        """Set what is sent: one value for each receiver."""
        rank, n = self.mpi.rank, self.mpi.ranks
        if self.name in ("all_reduce", "all_gather"):
            self.send[:] = array.array("f", [rank + 1.0]) * len(self.send)
            return
        for to in range(n):
            value = rank + 1.0 if self.name == "reduce_scatter" else rank * n + to + 1.0
            self.send[to * self.block : (to + 1) * self.block] = array.array("f", [value]) * self.block

    def expected(self) -> list[float]:
        """Return what must have arrived, block by block."""
        rank, n = self.mpi.rank, self.mpi.ranks
        if self.name in ("all_reduce", "reduce_scatter"):
            return [n * (n + 1) / 2.0]
        if self.name == "all_gather":
            return [source + 1.0 for source in range(n)]
        return [source * n + rank + 1.0 for source in range(n)]

    def run(self) -> None:
        """Do it once."""
        mpi = self.mpi
        send, receive = (ctypes.c_void_p(buffer.buffer_info()[0]) for buffer in (self.send, self.receive))
        if self.name == "all_reduce":
            mpi.call("Allreduce", send, receive, self.count, mpi.float, mpi.sum, mpi.world)
        elif self.name == "all_gather":
            mpi.call("Allgather", send, self.block, mpi.float, receive, self.block, mpi.float, mpi.world)
        elif self.name == "reduce_scatter":
            mpi.call("Reduce_scatter_block", send, receive, self.block, mpi.float, mpi.sum, mpi.world)
        else:
            mpi.call("Alltoall", send, self.block, mpi.float, receive, self.block, mpi.float, mpi.world)

    def wrong(self) -> int:
        """Return how many blocks are not what they must be."""
        values = self.expected()
        length = len(self.receive) // len(values)
        parts = (self.receive[i * length : (i + 1) * length] for i in range(len(values)))
        return sum(part != array.array("f", [value]) * length for part, value in zip(parts, values))

    def factor(self) -> float:
        """Return bus bandwidth over algorithm bandwidth, as nccl-tests defines it."""
        n = self.mpi.ranks
        return (2 if self.name == "all_reduce" else 1) * (n - 1) / n if n > 1 else 1


def measure(collective: Collective, options: argparse.Namespace) -> tuple[float, float | None]:
    """
    Return time of one iteration in seconds and the number of wrong blocks of all ranks.

    It is the median of all iterations, each as long as its slowest rank took: a CPU that worked for others for a moment
    spoils one iteration, not the figure. No new one is begun after some seconds.
    """
    mpi = collective.mpi
    for _warmup in range(options.w):
        collective.run()
    times: list[float] = []
    while len(times) < options.n and sum(times) < LONGEST:
        mpi.call("Barrier", mpi.world)
        begin = time.perf_counter()
        collective.run()
        times.append(mpi.most(time.perf_counter() - begin))
    return statistics.median(times), mpi.most(collective.wrong()) if options.c else None


def arguments() -> argparse.Namespace:
    """Return the options, named as those of nccl-tests."""
    parser = argparse.ArgumentParser()
    parser.add_argument("collective", choices=["all_reduce", "all_gather", "reduce_scatter", "alltoall"])
    parser.add_argument("-b", type=size, default=size("1M"))
    parser.add_argument("-e", type=size, default=size("16M"))
    parser.add_argument("-f", type=int, default=4)
    parser.add_argument("-n", type=int, default=5)
    parser.add_argument("-w", type=int, default=1)
    parser.add_argument("-c", type=int, default=1)
    parser.add_argument("-g", type=int, default=1, help="taken and ignored")
    return parser.parse_args()


def main() -> int:
    """Run the sweep; rank 0 prints."""
    options = arguments()
    try:
        mpi = Mpi()
    except OSError as error:
        print(f"{socket.gethostname()}: {error}", file=sys.stderr)
        return 127
    say = print if mpi.rank == 0 else (lambda *_args, **_kw: None)
    hosts = mpi.gather(f"{os.getpid()} on {socket.gethostname()}")
    say("# gpucluster-mpi version 1: no GPU and no NCCL in this figure, but CPUs and MPI")
    say(f"# Collective test starting: {options.collective}")
    for rank, text in enumerate(hosts):
        say(f"#  Rank {rank:2} Group  0 Pid {text} device  0 [cpu] CPU")
    say("#")
    side = "    time   algbw   busbw  #wrong"
    say(f"#       size         count      type   redop    root {side} {side}")
    redop = "sum" if options.collective in ("all_reduce", "reduce_scatter") else "none"
    wrong_rows, total, rows, step = 0, 0.0, 0, options.b
    while step <= options.e:
        collective = Collective(mpi, options.collective, step)
        took, wrong = measure(collective, options)
        algbw = collective.bytes / took / 1e9
        busbw = algbw * collective.factor()
        half = f"{took * 1e6:9.1f} {algbw:9.4f} {busbw:9.4f} {'N/A' if wrong is None else int(wrong):>7}"
        say(f"{collective.bytes:12} {collective.count:13} {'float':>9} {redop:>7} {-1:>7} {half} {half}", flush=True)
        wrong_rows, total, rows, step = wrong_rows + bool(wrong), total + busbw, rows + 1, step * max(2, options.f)
    say(f"# Out of bounds values : {wrong_rows} {'FAILED' if wrong_rows else 'OK'}")
    say(f"# Avg bus bandwidth    : {total / max(1, rows):.6g}", flush=True)
    mpi.call("Finalize")
    return 7 if wrong_rows else 0


if __name__ == "__main__":
    sys.exit(main())
