"""Sample playlists from a session model: no track twice, one mood a request."""
import argparse
import collections
import heapq
import json
import logging
import os
import time
from typing import List

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

log = logging.getLogger("playlist")

MOODS = ("calm", "focus", "happy", "workout", "sleep")
TRACKS_PER_MOOD = {"calm": 14, "focus": 12, "happy": 16, "workout": 11, "sleep": 7}


class Catalogue:
    def __init__(self):
        self.moods: List[str] = []
        for mood in MOODS:
            self.moods += [mood] * TRACKS_PER_MOOD[mood]

    def __len__(self):
        return len(self.moods)

    def title(self, track):
        return "%s %02d" % (self.moods[track].title(), track)

    def seconds(self, tracks):
        return sum(120 + (37 * track) % 200 for track in tracks)

    def mask(self, mood):
        return torch.tensor([m == mood for m in self.moods])


class SessionModel(nn.Module):
    def __init__(self, tracks, users, width=32):
        super().__init__()
        self.track_embedding = nn.Embedding(tracks, width)
        self.user_embedding = nn.Embedding(users, width)
        self.encoder = nn.GRU(width, width, batch_first=True)
        self.norm = nn.LayerNorm(width)
        self.popularity = nn.Parameter(torch.zeros(tracks))

    def forward(self, sessions, users):
        x = self.track_embedding(sessions)
        x, _ = self.encoder(x)
        x = self.norm(x[:, -1])
        x = x + self.user_embedding(users)
        return x @ self.track_embedding.weight.t() + self.popularity


def warm_start(model, history, users, steps, lr):
    """A few steps on the users' own histories, so that scores are not arbitrary."""
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    model.train()
    losses = []
    for step in range(steps):
        logits = model(history[:, :-1], users)
        loss = F.cross_entropy(logits, history[:, -1])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        losses.append(loss.item())
        if step % 5 == 0:
            log.info("warm start %d: %.3f", step, losses[-1])
    return losses


def nucleus(logits, mass):
    ordered, order = logits.sort(dim=-1, descending=True)
    cumulative = F.softmax(ordered, dim=-1).cumsum(dim=-1)
    drop = cumulative - F.softmax(ordered, dim=-1) > mass
    ordered = ordered.masked_fill(drop, float("-inf"))
    return torch.full_like(logits, float("-inf")).scatter(1, order, ordered)


def entropy(probs):
    return -(probs * probs.clamp(min=1e-12).log()).sum(dim=-1)


def next_track(model, sessions, users, allowed, args):
    logits = model(sessions, users).float() / args.temperature
    if args.top_p is not None:
        logits = nucleus(logits, args.top_p)
    logits = logits.masked_fill(~allowed, float("-inf"))
    probs = F.softmax(logits, dim=-1)
    log.debug("entropy %.3f", entropy(probs).mean().item())
    return torch.multinomial(probs, num_samples=1, replacement=True)


@torch.no_grad()
def sample_playlists(model, sessions, users, allowed, args):
    model.eval()
    for _ in range(args.length):
        choice = next_track(model, sessions, users, allowed, args)
        allowed = allowed.scatter(1, choice, False)
        sessions = torch.cat([sessions, choice], dim=1)
    return sessions[:, -args.length:].tolist()


def diversity(playlists):
    pairs, same = 0, 0
    for i, first in enumerate(playlists):
        for second in playlists[i + 1:]:
            pairs += 1
            same += len(set(first) & set(second)) / max(1, len(set(first)))
    return 1.0 - same / max(1, pairs)


def most_played(playlists, n):
    counts = collections.Counter(t for playlist in playlists for t in playlist)
    return heapq.nlargest(n, counts.items(), key=lambda item: item[1])


def build_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--length", type=int, default=5, help="tracks in a playlist")
    parser.add_argument("--users", type=int, default=6)
    parser.add_argument("--temperature", type=float, default=0.9)
    parser.add_argument("--top-p", type=float, default=None)
    parser.add_argument("--warm-steps", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--out", default="runs/playlists")
    return parser.parse_args()


def main():
    args = build_arguments()
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    torch.manual_seed(args.seed)
    torch.cuda.manual_seed_all(args.seed)
    catalogue = Catalogue()
    wanted = [MOODS[i % len(MOODS)] for i in range(args.users)]
    model = SessionModel(len(catalogue), len(wanted)).cuda()
    users = torch.arange(len(wanted)).cuda()
    sessions = torch.randint(0, len(catalogue), (len(wanted), 6)).cuda()
    losses = warm_start(model, sessions, users, args.warm_steps, lr=0.01)
    log.info("%d tracks, loss %.3f -> %.3f", len(catalogue), losses[0], losses[-1])

    allowed = torch.stack([catalogue.mask(mood) for mood in wanted]).cuda()
    everything = []
    for number in range(args.rounds):
        started = time.time()
        playlists = sample_playlists(model, sessions, users, allowed, args)
        torch.cuda.synchronize()
        log.info("round %d took %.3fs", number, time.time() - started)
        for user, playlist in enumerate(playlists):
            minutes = catalogue.seconds(playlist) / 60
            titles = ", ".join(catalogue.title(track) for track in playlist)
            print("user %d (%s): %s, %.1f min" % (user, wanted[user], titles, minutes))
        everything.extend(playlists)

    summary = {
        "diversity": diversity(everything),
        "minutes": float(np.mean([catalogue.seconds(playlist) / 60 for playlist in everything])),
        "most_played": [(catalogue.title(track), n) for track, n in most_played(everything, 5)],
        "peak_memory": torch.cuda.max_memory_allocated(),
    }
    os.makedirs(args.out, exist_ok=True)
    with open(os.path.join(args.out, "summary.json"), "w") as handle:
        json.dump(summary, handle, indent=2)
    print(json.dumps(summary["most_played"]))


if __name__ == "__main__":
    main()
