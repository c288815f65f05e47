"""Reward of an attempt at a task, for verl: 1.0 if `curate grade` finds it resolved, else 0.0.

    reward.custom_reward_function.path=reward_fn.py

The patch is `extra_info["patch"]` where an agent loop puts the difference that its agent left, else the last ```diff
block (or unfenced diff) of the reply. Grading applies it to a fresh checkout in a fresh sandbox; nothing of the reply is
run in this process. An attempt that the machine failed to grade gets 0.0 and `reward_valid` 0.0: mask such samples.

Environment: CURATE (the program, default `curate`), CURATE_DATASET (name or path of the dataset that holds the tasks,
default: the name in the row), CURATE_GRADE_TIMEOUT (seconds, default 3600).
"""

import json
import os
import re
import subprocess
import tempfile

FENCED = re.compile(r"^```(?:diff|patch)[ \t]*\r?\n(.*?)^```[ \t]*\r?$", re.DOTALL | re.MULTILINE)
UNFENCED = re.compile(r"^(?:diff --git |--- )", re.MULTILINE)


def extract_patch(reply):
    """Return the unified diff in a reply, empty where there is none."""
    blocks = FENCED.findall(reply or "")
    if blocks:
        return blocks[-1]
    start = UNFENCED.search(reply or "")
    return reply[start.start():].rstrip("\n") + "\n" if start else ""


def grade(task, dataset, patch):
    """Return the grade of a patch as `curate grade --json` prints it; raise where there is none."""
    with tempfile.TemporaryDirectory(prefix="curate-reward-") as folder:
        path = os.path.join(folder, "agent.patch")
        with open(path, "w", encoding="utf-8", errors="replace", newline="") as file:
            file.write(patch)
        done = subprocess.run(
            [os.environ.get("CURATE", "curate"), "grade", "--dataset", dataset, "--task", task, "--patch", path, "--json"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=float(os.environ.get("CURATE_GRADE_TIMEOUT", "3600")),
            check=False,
        )
    try:
        result = json.loads(done.stdout.decode("utf-8"))
        result["label"], result["reward"]
    except (ValueError, KeyError, TypeError):
        tail = done.stderr.decode("utf-8", "replace").strip()[-2000:]
        raise RuntimeError(f"`curate grade` ended with {done.returncode}: {tail}") from None
    return result


def compute_score(data_source, solution_str, ground_truth, extra_info=None, **_):
    """Return `score` (what verl trains on) with `reward_valid` and `resolved` as numbers and `label` as text."""
    truth = json.loads(ground_truth)
    patch = (extra_info or {}).get("patch")
    if patch is None:
        patch = extract_patch(solution_str)
    try:
        result = grade(truth["instance_id"], os.environ.get("CURATE_DATASET", truth["dataset"]), patch)
    except (OSError, RuntimeError, subprocess.TimeoutExpired) as error:
        print(f"reward_fn: {truth['instance_id']}: {error}")
        return {"score": 0.0, "reward_valid": 0.0, "resolved": 0.0, "label": "infrastructure"}
    reward = result["reward"]
    valid = reward is not None
    score = float(reward) if valid else 0.0
    return {"score": score, "reward_valid": float(valid), "resolved": float(score == 1.0), "label": result["label"]}
