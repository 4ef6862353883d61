#!/bin/bash
#SBATCH --job-name=rlhf-ray
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=4
#SBATCH --exclusive
#SBATCH --time=01:00:00
#
# Not run. From the root of a clone on a file system that all nodes share, after `make setup`:
#   sbatch cluster/slurm.sh algorithm.num_iterations=100
# One Ray per node (hence --exclusive); the program runs on the first node, and Ray stops with it.
# https://docs.ray.io/en/latest/cluster/vms/user-guides/community/slurm.html
set -euo pipefail

export PATH="$PWD/.venv/bin:$PATH"
export OMP_WAIT_POLICY=PASSIVE
export RAY_AUTH_MODE=token
ray get-auth-token --generate > /dev/null  # kept in the home directory, which the nodes share

head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
address=$(srun --nodes=1 --ntasks=1 --nodelist="$head" hostname --ip-address | cut -d ' ' -f 1)

srun --nodes="$SLURM_JOB_NUM_NODES" --ntasks="$SLURM_JOB_NUM_NODES" --cpus-per-task="$SLURM_CPUS_PER_TASK" \
    ray symmetric-run --address "$address:6379" --min-nodes "$SLURM_JOB_NUM_NODES" --num-cpus="$SLURM_CPUS_PER_TASK" -- \
    python -u -m rlhf_ray.train placement.address=auto "$@"
