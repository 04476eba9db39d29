import math
import random

import torch
from torch.utils.data import TensorDataset

ZONES = 12


def zone_centre(zone):
    angle = 2 * math.pi * zone / ZONES
    return 3.0 * math.cos(angle), 3.0 * math.sin(angle)


def traffic(minute):
    morning = math.exp(-((minute - 510) / 70.0) ** 2)
    evening = math.exp(-((minute - 1050) / 90.0) ** 2)
    return 1.0 + 0.8 * morning + 0.6 * evening


def make_trips(count, seed):
    rng = random.Random(seed)
    trips = []
    for _ in range(count):
        pickup = rng.randrange(24 * 60)
        origin, destination = rng.randrange(ZONES), rng.randrange(ZONES)
        distance = math.dist(zone_centre(origin), zone_centre(destination))
        duration = rng.uniform(3.0, 9.0)
        duration += 2.5 * distance * traffic(pickup)
        trips.append((pickup, origin, destination, distance, duration))
    return trips


def trip_tensors(trips):
    pickup, origin, destination, distance, duration = [torch.tensor(column) for column in zip(*trips)]
    phase = 2 * math.pi * pickup / (24 * 60)
    dense = torch.stack([phase.sin(), phase.cos(), distance / 5.0], dim=1)
    arrival_hour = (pickup + duration).long() // 60
    return TensorDataset(dense, origin, destination, arrival_hour, duration)
