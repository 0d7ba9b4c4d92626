"""Jobs over a Dask cluster, as a stream of events; each job ends exactly once."""

from __future__ import annotations

import queue
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from nnjit_studio.fleet.jobs import Ended, Event, Job, Outcome, Progressed, Started
from nnjit_studio.fleet.work import work

Do = Callable[[Job, bytes | None, Callable[[str], None]], Outcome]


def run(client: Any, jobs: Sequence[Job], send_files: bool, do: Do = work) -> Iterator[Event]:
    """Do the jobs, as many at a time as the cluster has workers.

    Parameters
    ----------
    client
        A ``distributed.Client``.
    send_files
        Send the models along: the workers are on other machines.
    do
        What a worker does with a job, the model's bytes if they are sent, and lines to tell.

    Yields
    ------
    What happens. A worker that dies costs the attempt of its job, which another worker begins
    anew; the end of a job comes once.
    """
    topic, happened = f"nnjit-fleet-{uuid.uuid4().hex}", queue.Queue[Any]()
    client.subscribe_topic(topic, lambda event: happened.put(event[1]))
    futures = {
        client.submit(
            _on_worker, do, job, job.model.read_bytes() if send_files else None, topic,
            key=f"{topic}-{job.name}", pure=False,
        ): job
        for job in jobs
    }  # fmt: skip
    for future in futures:
        future.add_done_callback(happened.put)
    attempts, workers, waiting = dict.fromkeys(jobs, 0), dict.fromkeys(jobs, ""), set(jobs)
    try:
        while waiting:
            item = happened.get()
            if not isinstance(item, dict):
                job = futures[item]
                waiting.discard(job)
                seconds, outcome = _result(item)
                yield Ended(job, workers[job], seconds, outcome)
                continue
            job = jobs[item["job"]]
            if job not in waiting:
                continue
            if "line" in item:
                yield Progressed(job, item["line"])
            else:
                attempts[job] += 1
                workers[job] = item["worker"]
                yield Started(job, workers[job], attempts[job])
    finally:
        client.cancel(list(futures))
        client.unsubscribe_topic(topic)


def _result(future: Any) -> tuple[float, Outcome]:
    try:
        seconds, outcome = future.result()
        return seconds, outcome
    except Exception as e:  # what Dask raises when a job took several workers with it
        hint = "Run the same verb on this machine to see why."
        return 0.0, Outcome({}, b"", f"The job did not end: {type(e).__name__}: {e}."[:300], hint)


def _on_worker(do: Do, job: Job, content: bytes | None, topic: str) -> tuple[float, Outcome]:
    """On a worker."""
    from distributed import get_worker

    worker = get_worker()
    place = {"job": job.number, "worker": str(worker.address)}
    worker.log_event(topic, place)
    began_s = time.monotonic()
    outcome = do(job, content, lambda line: worker.log_event(topic, {**place, "line": line}))
    return time.monotonic() - began_s, outcome
