"""The patients that `train_models.py` learns from and tests on, as files to import: known.csv and later.csv.

python take_tumours.py FOLDER
"""

import sys
from pathlib import Path

from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

data = load_breast_cancer(as_frame=True)
rows = data.frame.drop(columns="target").astype("float32")
train, test, train_truth, test_truth = train_test_split(rows, data.target, test_size=0.3, random_state=7)

if __name__ == "__main__":
    for name, part, truth in (("known", train, train_truth), ("later", test, test_truth)):
        part.assign(benign=truth).to_csv(Path(sys.argv[1]) / f"{name}.csv", index=False)
