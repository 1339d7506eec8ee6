"""Waiting that ends."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
import time
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure import deadline as module
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.errors import RequestError, SlowError
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.work import Work
from ansible_collections.hpcai.gpucluster.tests.patience import HANGS, PATIENCE


def test_a_share_of_the_deadline_ends_earlier() -> None:
    now = [100.0]
    deadline = module.Deadline(10, lambda: now[0])

    now[0] = 104.0
    assert (deadline.left(), deadline.left(0.5)) == (6, 1)
    now[0] = 120.0
    assert (deadline.left(), deadline.left(0.5)) == (0, 0)


def test_the_oldest_request_is_the_slow_one() -> None:
    now = [0.0]
    under_way = module.Open(lambda: now[0])
    with under_way.during("GET /old"):
        now[0] = 7.0
        with under_way.during("GET /new"):
            assert under_way.slowest("x") == "GET /old has had no full answer for 7 s"
    assert under_way.slowest("the list") == "the list is not done"


def test_threads_work_side_by_side_and_pass_on_what_goes_wrong() -> None:
    pool = module.Pool(2)
    both = threading.Barrier(2, timeout=PATIENCE)

    assert sorted(one.result(PATIENCE) for one in [pool.submit(both.wait), pool.submit(both.wait)]) == [0, 1]
    with pytest.raises(ZeroDivisionError):
        pool.submit(lambda: 1 // 0).result(PATIENCE)
    pool.close()


def test_what_has_not_begun_is_dropped() -> None:
    pool = module.Pool(1)
    started, go = threading.Event(), threading.Event()

    def first() -> None:
        started.set()
        go.wait(PATIENCE)

    running, waiting = pool.submit(first), pool.submit(pytest.fail)
    assert started.wait(PATIENCE)
    pool.close()
    go.set()

    running.result(PATIENCE)
    assert waiting.cancelled()


def test_a_thread_that_hangs_does_not_keep_python_from_ending() -> None:
    code = f"""
        import sys, time
        sys.path[:0] = {[path for path in sys.path if path]!r}
        from {module.__name__} import Pool
        Pool(1).submit(time.sleep, {HANGS})
        print("done")
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]

    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE)

    assert done.stdout == "done\n"


def work(seconds: float) -> Work:
    return Work(module.Deadline(seconds), 4)


def fail(status: int) -> t.Any:
    raise RequestError(status, "No", "no", where="GET /x")


def test_what_is_late_is_an_error_that_names_the_limit() -> None:
    done = work(0.2)

    with pytest.raises(SlowError, match=r"the list is not done \(deadline is 0 s\)"):
        done.result(done.start("the list", time.sleep, HANGS))
    done = work(PATIENCE)
    with pytest.raises(TimeoutError):  # of the function, not of the waiting
        done.result(done.start("x", _late))


def _late() -> None:
    raise TimeoutError


@pytest.mark.parametrize(("status", "gap"), [(403, True), (404, True), (500, False), (401, False)])
def test_a_list_of_machines_that_is_refused_is_a_gap_and_one_that_fails_is_an_error(status: int, gap: bool) -> None:
    done = work(PATIENCE)
    task = done.start("machines", fail, status)

    if gap:
        assert done.root(task) is None
        assert done.gaps == [f"machines: GET /x answered {status} No: no"]
    else:
        with pytest.raises(RequestError):
            done.root(task)


def test_what_hosts_can_do_without_is_a_gap_but_not_a_refused_token() -> None:
    done = work(0.2)

    assert done.optional(done.start("addresses", fail, 500)) is None
    assert done.optional(done.start("interfaces", time.sleep, HANGS)) is None
    assert [gap.partition(":")[0] for gap in done.gaps] == ["addresses", "interfaces"]
    with pytest.raises(RequestError):
        work(PATIENCE).optional(done.start("x", fail, 401))
