"""Threads for each kind of request, with a bound on how many requests wait for one."""

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from pit_server import metrics
from pit_server.traffic import Budget, Traffic


class ThreadPools:
    def __init__(self, budgets: Mapping[Traffic, Budget]) -> None:
        self._budgets = budgets
        self._pools = {
            traffic: ThreadPoolExecutor(budget.threads, thread_name_prefix=traffic)
            for traffic, budget in budgets.items()
        }
        self._busy = dict.fromkeys(budgets, 0)
        self._lock = threading.Lock()

    def submit(self, traffic: Traffic, call: Callable[..., Any], *args: Any) -> "Future[Any] | None":
        """Run it in a thread of that kind; None if too many wait for one already."""
        budget = self._budgets[traffic]
        with self._lock:
            if self._busy[traffic] >= budget.threads + budget.waiting:
                metrics.REFUSED.labels(traffic).inc()
                return None
            self._busy[traffic] += 1
        metrics.begin_request(traffic)
        future = self._pools[traffic].submit(call, *args)
        future.add_done_callback(lambda _: self._release(traffic))
        return future

    def shutdown(self, wait: bool = True) -> None:
        for pool in self._pools.values():
            pool.shutdown(wait=wait, cancel_futures=not wait)

    def _release(self, traffic: Traffic) -> None:
        with self._lock:
            self._busy[traffic] -= 1
        metrics.end_request(traffic)
