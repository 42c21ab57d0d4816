"""Train a small PyTorch network and add a row to runs.csv: `python example-pytorch.py bf16 0` is variant and seed."""

import csv
import sys
import time
from pathlib import Path

import torch
from torch import nn

variant, seed = sys.argv[1], int(sys.argv[2])
torch.manual_seed(seed)
x, noise = torch.randn(2000, 20), torch.randn(2000, 1)
y = (x[:, :1] + x[:, 1:2] * x[:, 2:3] + 0.3 * noise > 0).float()
model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
started = time.perf_counter()
for _ in range(100):
    with torch.autocast("cpu", torch.bfloat16, enabled=variant == "bf16"):
        loss = nn.functional.binary_cross_entropy_with_logits(model(x[:1500]), y[:1500])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
seconds = time.perf_counter() - started
accuracy = 100 * ((model(x[1500:]) > 0) == (y[1500:] > 0)).float().mean().item()

table = Path("runs.csv")
new = not table.exists()
with table.open("a", newline="") as file:
    rows = csv.writer(file)
    if new:
        rows.writerow(["variant", "seed", "accuracy", "seconds"])
    rows.writerow([variant, seed, round(accuracy, 2), round(seconds, 2)])
