import re
from collections import Counter

TOKEN = re.compile(r"[a-z]+(?:'[a-z]+)?|[0-9]+|[!?]")


class Tokenizer:
    def __init__(self, words):
        self.words = ["<pad>", "<cls>"] + words
        self.index = {word: number for number, word in enumerate(self.words)}

    @classmethod
    def build(cls, texts, min_count=1):
        counts = Counter()
        for text in texts:
            counts.update(split(text))
        words = sorted(word for word, count in counts.items() if count >= min_count)
        return cls(words)

    def __len__(self):
        return len(self.words)

    def encode(self, text):
        unknown = len(self.words)
        return [self.index["<cls>"]] + [self.index.get(word, unknown) for word in split(text)]

    def decode(self, ids):
        return " ".join(self.words[i] for i in ids if self.words[i] != "<pad>")

    def save(self, path):
        with open(path, "w") as handle:
            handle.write("\n".join(self.words))


def split(text):
    return TOKEN.findall(text.lower())
