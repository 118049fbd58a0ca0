//! The examples at the end of each command's help. A test sees to it that every command has some.

pub const TOP: &str = "\
Examples:
  shipway up                                start the server, in its own terminal
  shipway run -- python fit.py              run a command, see its output
  shipway run -d --array 1-1000 -- ./fit    a thousand tasks; prints the job's id
  shipway jobs                              what is there
  shipway top                               the same, live
  shipway why 12                            why job 12 waits

Exit codes: 0 done, 1 a task failed (`run` and `wait`: the task's own code), 2 wrong usage,
3 refused, 4 no server, 130 interrupted.

Environment: SHIPWAY_HOME (default ~/.local/share/shipway) is where `up` keeps its data and where
the server of this machine is found; SHIPWAY_URL, SHIPWAY_TOKEN and SHIPWAY_CA (a certificate to
trust) lead to another one. NO_COLOR turns colours off.";

pub const UP: &str = "\
Examples:
  shipway up
  shipway up --listen 0.0.0.0:7447 --tls    serve other machines too
  shipway up --keep-output 30d              remove the output of tasks after a month
  shipway up --runtime apptainer            make containers with what the site allows
  SHIPWAY_HOME=/data/shipway shipway up --log-format json --log-level info";

pub const RUN: &str = "\
Examples:
  shipway run -- python fit.py --epochs 10
  shipway run --gpus A100:2 --memory 32GB --time-limit 2h -- ./train.sh
  shipway run --array 1-100 -- sh -c './fit $SHIPWAY_INDEX'
  shipway run --each inputs.txt -- ./convert {line}
  shipway run --array 0-9 --input model/ --output fit.json:fit.{index}.json -- ./fit
  shipway run --requirements 'CUDACapability >= 8.0 && HasAVX2' --rank Memory -- ./train
  shipway run --sandbox -- make             in a copy of this directory, wherever that is
  id=$(shipway run -d -- ./prepare); shipway run --after $id -- ./use
  shipway run --retries 3 --retry-on 75,signal --env OMP_NUM_THREADS=4 -- ./flaky
  shipway run --dry-run --gpus A100:2 -- ./train.sh

The task gets a clean environment with what --env names (--export-all: all of yours). It runs in
the current directory unless --workdir names another. For a job of many tasks the progress is
shown instead of the output. With --json the output is not shown and the job's end is printed.";

pub const SUBMIT: &str = "\
Examples:
  shipway submit job.yaml
  shipway submit --dry-run job.yaml         what would run, and what it would wait for
  shipway submit fit.sub --set seed=7       an HTCondor submit file
  echo '{\"command\": [\"true\"]}' | shipway submit -

A job file:
  name: fit
  command: [python, fit.py, \"--seed={seed}\"]     # or one text, for the shell
  each: [{seed: 1}, {seed: 2}]                   # or array: 1-100
  workdir: .
  resources: {cpus: 4, memory: 16GB, gpu: \"A100:2\"}
  retries: {limit: 3, delay: 10s, on: [75, signal]}
  time_limit: 2h
  after: [12, \"prepare:any\"]                     # jobs by id, or by name of the same file

Several jobs stand in one YAML file, parted by a line of ---. All of them are submitted, or none.";

pub const JOBS: &str = "\
Examples:
  shipway jobs
  shipway jobs --state running --label project=higgs
  shipway jobs --limit 20 --before 1200     the next page";

pub const SHOW: &str = "\
Examples:
  shipway show 12
  shipway show 12/3                         one task, with all its attempts
  shipway show 12 --state failed --limit 200";

pub const LOGS: &str = "\
Examples:
  shipway logs 12
  shipway logs -f 12/3
  shipway logs --stderr --attempt 1 12/3";

pub const OUTPUTS: &str = "\
Examples:
  shipway outputs 12                        what came back
  shipway outputs 12 -o results             fetch all of it to the folder results
  shipway outputs 12/3 'out/*.txt' -o .     some files of one task

Files come back of jobs whose directory travels (`shipway run --sandbox`). A file that is there
already is not written over: what came has another name then.";

pub const WAIT: &str = "\
Examples:
  shipway wait 12 && echo good
  shipway wait --timeout 1h 12 13

For one job of one task the exit code is the task's own; otherwise 0 when every task succeeded
and 1 when not. 124: the time given by --timeout is over.";

pub const CANCEL: &str = "\
Examples:
  shipway cancel 12
  shipway cancel 12/3 12/4
  shipway cancel --label project=higgs --state waiting";

pub const RETRY: &str = "\
Examples:
  shipway retry 12                          all tasks that failed or were cancelled
  shipway retry 12/3
  shipway retry --label project=higgs --state failed";

pub const WHY: &str = "\
Example:
  shipway why 12";

pub const GPUS: &str = "\
Examples:
  shipway gpus
  shipway gpus A100:40GB..:2                which would match, and which now";

pub const LIVE: &str = "\
Examples:
  shipway top                               ? shows the keys, q leaves; jobs go on
  shipway top --all                         everybody's jobs, for operators
  shipway top --once                        one frame as plain text, for a pipe or a log
  shipway top --json                        the data of one frame, for a program";

pub const NODES: &str = "\
Example:
  shipway nodes";

pub const DOCTOR: &str = "\
Examples:
  shipway doctor
  shipway doctor --quick                    without a kernel on each GPU
  shipway doctor --image docker://ubuntu:24.04     is the image to be had from here?
  shipway doctor --json                     for a script that drains nodes

It needs no server and no root. A kernel runs on each NVIDIA GPU, in a process of its own, and its
results are compared; a container is started, and shown one GPU. Exit codes: 0 the node is fit
(there may be warnings), 1 a check failed.";

pub const IMAGE: &str = "\
Examples:
  shipway image pull docker://ubuntu:24.04
  shipway image pull sif:analysis.sif
  shipway image list
  shipway image show docker://ubuntu:24.04         or by digest: shipway image show 4f5e6d7c
  shipway image rm docker://ubuntu:24.04
  shipway image gc --unused-for 30d --max-size 200GB

Images are unpacked once and share their files; no server is needed. Passwords are read from
~/.docker/config.json, as `docker login` writes it.";

pub const REGISTRY: &str = "\
Examples:
  shipway registry login registry.example.org --user ada
  shipway registry login ghcr.io --user ada < token.txt
  shipway registry list
  shipway registry logout registry.example.org

The server uses it when it looks up your images, and hands it to nodes that fetch them. No task sees
it, and nobody can read it back.";

pub const USER: &str = "\
Examples:
  shipway user add ada
  shipway user add grace --role operator
  shipway user add prometheus --role monitor       may read /metrics and change nothing
  shipway user share ada 300                       three times the usual share
  shipway user remove ada                          tokens, open answers and jobs end at once
  shipway user remove ada --give-jobs-to bob";

pub const SITE: &str = "\
Examples:
  shipway site check hpc.yaml          is the file in order? nothing is touched
  shipway site add hpc.yaml            from now on pilots are asked for there
  shipway site list
  shipway site show hpc                its pilots, and what its batch system says
  shipway site drain hpc               nothing new goes there; what runs goes on
  shipway site remove hpc              when nothing of it is left

A file for Slurm, for one partition of nodes with four A100 each, a pilot for each GPU:
  name: hpc
  kind: slurm
  program: /opt/shipway/bin/shipway
  server: https://shipway.example.org:7447
  shared: [/home]
  classes:
    - name: a100
      partition: gpu
      pilots: 16
      cpus: 8
      memory: 60GB
      gpus: {count: 1, kind: a100, model: NVIDIA A100-SXM4-40GB, memory: 40GB}";

pub const TOKEN: &str = "\
Examples:
  export SHIPWAY_TOKEN=$(shipway token new --note laptop --lasts 90d)
  shipway token list
  shipway token revoke TOKEN_ID
  (umask 077; shipway token pilot > pilot.json)    for a pilot on another machine";

pub const COMPLETIONS: &str = "\
Example:
  shipway completions bash > ~/.local/share/bash-completion/completions/shipway";

pub const PILOT: &str = "\
Examples:
  (umask 077; shipway token pilot > pilot.json)    on the server's machine
  shipway pilot --dir /scratch/pilot --server https://head:7447 --token-file pilot.json
  shipway pilot --dir /tmp/p --server https://head:7447 --token-file p.json --within slurm";

pub const RELAY: &str = "\
Examples:
  shipway relay --listen 10.0.0.1:7448 --server https://head:7447
  shipway relay --listen 10.0.0.1:7448 --server https://head:7447 --ca head.pem --images-size 500GB
  shipway relay add docker://registry.example.org/tool:1    so that it is there already
  shipway pilot --relay 10.0.0.1:7448 --server https://head:7447 …    on a node

Pilots speak TLS with the server, through the relay, which cannot read it. Images are handed to
pilots of this server only, and compared by them with their digests. `relay: 10.0.0.1:7448` in a
site's file has its pilots come this way.";

pub const OPENAPI: &str = "\
Example:
  shipway openapi > openapi.json";

pub const VERSION: &str = "\
Example:
  shipway version --json";

pub const CLASSAD: &str = "\
Examples:
  shipway classad eval '1 + 2 * 3'
  shipway classad eval 'Memory >= 2048 && HasAVX2' --ad node.ad
  condor_status -long slot1@n7 | shipway classad eval Cpus --ad -
  shipway classad eval 'TARGET.Memory - MY.RequestMemory' --ad job.ad --target node.ad
  shipway classad match job.ad node.ad      which term does not hold, and what it found

An ad is one in brackets, `[ Cpus = 4; Memory = 2048 ]`, or an attribute a line, `Cpus = 4`. `match`
exits with 0 when the Requirements of both hold, and with 1 when they do not.";
