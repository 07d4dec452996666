"""Lightning with ddp_spawn: the Trainer starts its processes itself, as it does in a notebook."""

import argparse
import os
import time

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint


class Regression(lightning.LightningModule):
    def __init__(self, bad_batch: int) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
        self.bad_batch = bad_batch

    def training_step(self, batch, index):
        if self.global_step + 1 == self.bad_batch:
            raise ValueError(f"bad batch {self.bad_batch}")
        time.sleep(0.02)
        return self.layer(batch[0]).square().mean()

    def on_train_batch_end(self, *_):
        if self.global_rank == 0:
            print("step", self.global_step, flush=True)

    def on_train_start(self):
        if self.global_rank == 0:
            print("starts at", self.global_step, "of", self.trainer.world_size, flush=True)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int)
    parser.add_argument("--out")
    parser.add_argument("--bad-batch", type=int, default=-1)
    options = parser.parse_args()
    data = torch.utils.data.TensorDataset(torch.randn(4096, 4))
    last = os.path.join(options.out, "last.ckpt")
    trainer = lightning.Trainer(
        accelerator="cpu",
        strategy="ddp_spawn",
        devices=2,
        max_steps=options.steps,
        callbacks=[ModelCheckpoint(dirpath=options.out, save_last=True, every_n_train_steps=2)],
        logger=False,
        enable_progress_bar=False,
    )
    trainer.fit(
        Regression(options.bad_batch),
        torch.utils.data.DataLoader(data, batch_size=2),
        ckpt_path=last if os.path.exists(last) else None,
    )
