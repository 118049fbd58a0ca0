"""Times HyperQueue's own LocalCluster (server and worker in this process) running one program.

Usage: hq.py TASKS CORES PROGRAM [ARG...]. Prints one JSON object on standard output.

The client asks for progress once a second, so the end of the job is only known to the second.
The rate is therefore taken at the last report before the end: tasks finished by then over the
time since the submission. Only a job that ends before the first report falls back to total time.
"""

import json
import logging
import sys
import tempfile
import time

from hyperqueue import Job, LocalCluster
from hyperqueue.cluster import WorkerConfig


def main() -> None:
    # The library logs to the root logger; standard output is for the result alone.
    logging.basicConfig(level=logging.ERROR, stream=sys.stderr)
    tasks, cores, program = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    with tempfile.TemporaryDirectory() as folder:
        cluster = LocalCluster(server_dir=folder, worker_config=WorkerConfig(cores=cores))
        with cluster:
            client = cluster.client()
            job = Job(default_workdir=folder)
            for _ in range(tasks):
                job.program(program, stdout=None, stderr=None)
            reports = []
            start = time.monotonic()
            submitted = client.submit(job)
            accepted = time.monotonic()

            def progress(jobs) -> None:
                done = sum(state["finished"] for state in jobs.values())
                reports.append((time.monotonic() - start, done))

            failed = client.connection.wait_for_jobs((submitted.id,), progress)
            end = time.monotonic()
            if failed:
                sys.exit("a HyperQueue task failed")
    elapsed, done = end - start, tasks
    running = [report for report in reports if 0 < report[1] < tasks]
    if running:
        elapsed, done = running[-1]
    result = {"tasks": done, "seconds": elapsed, "submit_seconds": accepted - start}
    print(json.dumps(result))


main()
