#!/usr/bin/env python3
"""Draws and plays the demo table.

    python tools/make_demo_table.py

writes cmd/flightblob/demo/pictures.arrows and sounds.arrows, Arrow streams that `flightblob demo` puts into its own server,
and with pylance the same table as flightsvc/testdata/demo/media.lance, which tests read. Needs pylance and numpy. The
payload is the same on every run, the names of the table's files are not.

Twelve PNG pictures and four WAV sounds, one row each. The thresholds are small
enough for values to lie inline, packed and in objects of their own.
"""

import pathlib
import shutil
import struct
import sys
import zlib

import lance
import numpy as np
import pyarrow as pa
from lance import blob_array, blob_field

RATE = 11025  # samples a second


def png(pixels):
    """A PNG of an array height x width x 3 of bytes."""
    height, width, _ = pixels.shape

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    # Filter 1: each byte less that of the pixel to its left.
    rows = pixels.astype(np.uint8)
    left = np.concatenate([np.zeros((height, 1, 3), np.uint8), rows[:, :-1]], axis=1)
    lines = np.concatenate([np.full((height, 1), 1, np.uint8), (rows - left).reshape(height, -1)], axis=1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines.tobytes(), 9)) + chunk(b"IEND", b"")


def wav(samples):
    """A mono WAV of samples in -1..1."""
    body = (np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes()
    head = struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + len(body), b"WAVE", b"fmt ", 16, 1, 1, RATE, RATE * 2, 2, 16, b"data", len(body))
    return head + body


def grid(width, height, span=1.0):
    y, x = np.mgrid[0:height, 0:width]
    scale = 2 * span / min(width, height)
    return (x - width / 2) * scale, (y - height / 2) * scale


def palette(t, phase=(0.0, 0.33, 0.67)):
    """Soft colours for t in 0..1."""
    return np.stack([127.5 + 127.5 * np.cos(2 * np.pi * (t + p)) for p in phase], axis=-1)


def mandelbrot(width=192, height=144):
    x, y = grid(width, height, 1.25)
    return palette(escape(x * 1.1 - 0.6 + 1j * y, None) ** 0.5)


def julia(width=176, height=132):
    x, y = grid(width, height, 1.2)
    return palette(escape(x + 1j * y, -0.79 + 0.15j) ** 0.6, (0.5, 0.6, 0.75))


def escape(z, c):
    c = z.copy() if c is None else np.full_like(z, c)
    count = np.zeros(z.shape)
    alive = np.ones(z.shape, bool)
    for _ in range(60):
        z[alive] = z[alive] ** 2 + c[alive]
        alive &= np.abs(z) < 4
        count += alive
    return count / 60


def plasma(width=160, height=120):
    x, y = grid(width, height, 3)
    t = np.sin(x * 2) + np.sin(y * 3 + 1) + np.sin((x + y) * 1.7) + np.sin(np.hypot(x, y) * 3)
    return palette(t / 8 + 0.5, (0.0, 0.15, 0.3))


def spiral(width=140, height=140):
    x, y = grid(width, height)
    t = (np.arctan2(y, x) / (2 * np.pi) * 5 + np.log(np.hypot(x, y) + 0.02) * 2) % 1
    return palette(np.floor(t * 8) / 8, (0.1, 0.4, 0.55))


def rings(width=96, height=96):
    x, y = grid(width, height)
    return palette(np.floor(np.hypot(x, y) * 6) / 6)


def checkers(width=64, height=64):
    y, x = np.mgrid[0:height, 0:width]
    on = (x // 8 + y // 8) % 2
    return np.stack([40 + on * 200, 60 + on * 160, 90 + on * 100], axis=-1)


def stripes(width=64, height=48):
    y, x = np.mgrid[0:height, 0:width]
    return palette(((x + y) // 8 % 5) / 5, (0.2, 0.3, 0.8))


def triangle(width=128, height=128):
    y, x = np.mgrid[0:height, 0:width]
    on = (x & y) == 0
    return np.where(on[..., None], [250, 200, 80], [24, 28, 48])


def sunset(width=160, height=100):
    x, y = grid(width, height)
    t = (y - y.min()) / np.ptp(y)
    sky = np.stack([255 - 90 * t, 120 + 60 * (1 - t) - 60 * t, 90 + 110 * t], axis=-1)
    sun = np.hypot(x, y - 0.25) < 0.38
    sea = y > 0.45
    image = np.where(sun[..., None], [255, 226, 130], sky)
    waves = 30 * np.sin(x * 9 + y * 40)[..., None]
    return np.clip(np.where(sea[..., None], [30, 60, 110] + waves, image), 0, 255)


def cells(width=150, height=110):
    points = np.random.default_rng(7).uniform(0, 1, (28, 2)) * [width, height]
    y, x = np.mgrid[0:height, 0:width]
    near = np.argmin((x[..., None] - points[:, 0]) ** 2 + (y[..., None] - points[:, 1]) ** 2, axis=-1)
    return palette((near * 0.618) % 1, (0.0, 0.2, 0.5))


def moire(width=180, height=120):
    x, y = grid(width, height, 2)
    t = np.sin(np.hypot(x - 0.7, y) * 22) * np.sin(np.hypot(x + 0.7, y) * 22)
    return palette(t / 2 + 0.5, (0.6, 0.65, 0.7))


def noise(width=110, height=80):
    small = np.random.default_rng(3).integers(0, 256, (height // 10, width // 10, 3))
    return np.kron(small, np.ones((10, 10, 1)))


def note(pitch, seconds, decay=3.0):
    t = np.arange(int(RATE * seconds)) / RATE
    tone = sum(np.sin(2 * np.pi * pitch * n * t) / n**1.6 for n in (1, 2, 3, 4))
    return 0.5 * tone * np.exp(-decay * t) * np.minimum(1, t * 200)


def scale():
    return np.concatenate([note(440 * 2 ** (n / 12), 0.16, 6) for n in (0, 2, 4, 5, 7, 9, 11, 12)])


def chord():
    return sum(note(p, 1.1, 2) for p in (261.63, 329.63, 392.0)) / 2.2


def bell():
    t = np.arange(int(RATE * 0.8)) / RATE
    return 0.5 * np.exp(-5 * t) * np.sin(2 * np.pi * 880 * t + 3 * np.sin(2 * np.pi * 1245 * t))


def click():
    t = np.arange(int(RATE * 0.06)) / RATE
    return 0.8 * np.exp(-120 * t) * np.sin(2 * np.pi * 1800 * t)


PICTURES = [mandelbrot, julia, plasma, spiral, rings, checkers, stripes, triangle, sunset, cells, moire, noise]
SOUNDS = [scale, chord, bell, click]

FIELDS = [
    pa.field("name", pa.utf8(), nullable=False),
    pa.field("media_type", pa.utf8(), nullable=False),
    pa.field("width", pa.int32()),
    pa.field("height", pa.int32()),
    pa.field("seconds", pa.float64()),
    blob_field("data", inline_size_threshold=2048, dedicated_size_threshold=20000, pack_file_size_threshold=1 << 20),
]


def rows():
    pictures = []
    for draw in PICTURES:
        pixels = draw()
        pictures.append((draw.__name__, "image/png", pixels.shape[1], pixels.shape[0], None, png(pixels)))
    sounds = []
    for play in SOUNDS:
        samples = play()
        sounds.append((play.__name__, "audio/wav", None, None, round(len(samples) / RATE, 3), wav(samples)))
    return pictures, sounds


def table(group):
    columns = list(zip(*group))
    arrays = [pa.array(c, f.type) for c, f in zip(columns[:-1], FIELDS)]
    return pa.table([*arrays, blob_array(list(columns[-1]))], schema=pa.schema(FIELDS))


def main():
    top = pathlib.Path(__file__).resolve().parent.parent
    path = top / "flightsvc" / "testdata" / "demo" / "media.lance"
    shutil.rmtree(path, ignore_errors=True)
    groups = dict(zip(("pictures", "sounds"), rows()))
    for name, group in groups.items():
        with pa.OSFile(str(top / "cmd" / "flightblob" / "demo" / f"{name}.arrows"), "wb") as out:
            with pa.ipc.new_stream(out, table(group).schema) as stream:
                stream.write_table(table(group))
        lance.write_dataset(table(group), str(path), mode="append" if path.exists() else "create", data_storage_version="2.2")
        for name, kind, *_, data in group:
            print(f"{name:12} {kind:10} {len(data):7}")


if __name__ == "__main__":
    main()
