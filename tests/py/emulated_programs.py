"""Ordinary training code, each a program of its own: what runs on a GPU must run on the emulated device unchanged.

Each sets `result`, a list of tensors.  DEVICE is "cuda" on the emulated device and "cpu" on the plain CPU.
"""

HEAD = """
import copy, math
import torch, torch.nn as nn, torch.nn.functional as F
torch.manual_seed(0)
device = torch.device(DEVICE)
"""

PROGRAMS = {
    "cnn": """
net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                    nn.Dropout(0.3), nn.Linear(8 * 16, 10)).to(device)
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, nesterov=True)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 5)
for step in range(5):
    x, y = torch.randn(4, 3, 8, 8).to(device), torch.randint(0, 10, (4,), device=device)
    opt.zero_grad(); loss = F.cross_entropy(net(x), y, label_smoothing=0.1); loss.backward(); opt.step(); sched.step()
result = [loss] + list(net.state_dict().values())
""",
    "residual network with Adam and clipping": """
class Block(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.a, self.b, self.n = nn.Conv2d(n, n, 3, padding=1), nn.Conv2d(n, n, 3, padding=1), nn.GroupNorm(2, n)
    def forward(self, x):
        return F.relu(x + self.n(self.b(F.relu(self.a(x)))))
net = nn.Sequential(nn.Conv2d(3, 4, 1), Block(4), Block(4), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)).to(device)
opt = torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=0.01)
for step in range(4):
    loss = F.mse_loss(net(torch.randn(2, 3, 6, 6, device=device)), torch.zeros(2, 3, device=device))
    opt.zero_grad(set_to_none=True); loss.backward(); norm = nn.utils.clip_grad_norm_(net.parameters(), 0.5); opt.step()
result = [loss, norm] + [p.detach() for p in net.parameters()]
""",
    "u-net for segmentation": """
down, bottom = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
up, head = nn.ConvTranspose2d(4, 4, 2, stride=2), nn.Conv2d(8, 3, 1)
net = nn.ModuleList([down, bottom, up, head]).to(device)
opt = torch.optim.AdamW(net.parameters(), lr=0.01)
for step in range(3):
    x = torch.randn(2, 1, 8, 8, device=device); mask = torch.randint(0, 3, (2, 8, 8), device=device); mask[0, 0] = 255
    a = down(x).relu(); b = up(bottom(F.max_pool2d(a, 2)).relu()); out = head(torch.cat([a, b], 1))
    loss = F.cross_entropy(out, mask, ignore_index=255)
    opt.zero_grad(); loss.backward(); opt.step()
iou = ((out.argmax(1) == mask) & (mask != 255)).sum() / (mask != 255).sum()
result = [loss, iou, F.interpolate(out, scale_factor=2, mode="bilinear", align_corners=False)]
""",
    "transformer encoder, trained and then evaluated": """
enc = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 2).to(device)
emb = nn.Embedding(50, 16, padding_idx=0).to(device)
params = list(enc.parameters()) + list(emb.parameters())
opt = torch.optim.AdamW(params, lr=1e-3)
ids = torch.randint(0, 50, (3, 7), device=device); pad = ids == 0
for step in range(3):
    out = enc(emb(ids), src_key_padding_mask=pad); loss = out.pow(2).mean()
    opt.zero_grad(); loss.backward(); opt.step()
enc.eval()
with torch.no_grad():
    last = enc(emb(ids))
result = [loss, last, emb.weight.grad]
""",
    "decoder language model": """
class Attention(nn.Module):
    def __init__(self, n, heads):
        super().__init__(); self.h = heads; self.qkv = nn.Linear(n, 3 * n); self.o = nn.Linear(n, n)
        self.register_buffer("mask", torch.tril(torch.ones(16, 16)).bool())
    def forward(self, x):
        b, t, n = x.shape
        q, k, v = [z.view(b, t, self.h, n // self.h).transpose(1, 2) for z in self.qkv(x).chunk(3, -1)]
        w = (q @ k.transpose(-1, -2) / math.sqrt(n // self.h)).masked_fill(~self.mask[:t, :t], float("-inf")).softmax(-1)
        return self.o((w @ v).transpose(1, 2).reshape(b, t, n))
class LM(nn.Module):
    def __init__(self):
        super().__init__(); self.tok = nn.Embedding(30, 16); self.pos = nn.Embedding(16, 16); self.att = Attention(16, 2)
        self.n = nn.LayerNorm(16); self.head = nn.Linear(16, 30, bias=False); self.head.weight = self.tok.weight
    def forward(self, ids):
        x = self.tok(ids) + self.pos(torch.arange(ids.shape[1], device=ids.device))
        return self.head(self.n(x + self.att(x)))
m = LM().to(device); opt = torch.optim.Adam(m.parameters(), lr=1e-2)
for step in range(3):
    ids = torch.randint(0, 30, (2, 9), device=device); out = m(ids[:, :-1])
    loss = F.cross_entropy(out.reshape(-1, 30), ids[:, 1:].reshape(-1)); opt.zero_grad(); loss.backward(); opt.step()
ids = torch.zeros(1, 1, dtype=torch.long, device=device)
for _ in range(5):
    p = m(ids)[:, -1].softmax(-1); v, i = p.topk(5); ids = torch.cat([ids, i.gather(1, torch.multinomial(v, 1))], 1)
result = [loss, ids]
""",
    "lstm over packed sequences": """
net = nn.LSTM(5, 6, num_layers=2, batch_first=True, bidirectional=True, dropout=0.1).to(device); head = nn.Linear(12, 2).to(device)
opt = torch.optim.RMSprop(list(net.parameters()) + list(head.parameters()), lr=0.01)
for step in range(3):
    x = torch.randn(3, 6, 5, device=device); lengths = torch.tensor([6, 4, 2])
    packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
    out, (h, c) = net(packed); out, n = nn.utils.rnn.pad_packed_sequence(out, batch_first=True)
    loss = F.cross_entropy(head(out[:, -1] + h[-1].repeat(1, 2)), torch.tensor([0, 1, 0], device=device))
    opt.zero_grad(); loss.backward(); opt.step()
gru = nn.GRUCell(5, 4).to(device); s = torch.zeros(3, 4, device=device)
for t in range(3): s = gru(x[:, t], s)
result = [loss, out, h, s]
""",
    "gan step": """
G = nn.Sequential(nn.Linear(4, 16), nn.LeakyReLU(0.2), nn.Linear(16, 8), nn.Tanh()).to(device)
D = nn.Sequential(nn.Linear(8, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1)).to(device)
og, od = torch.optim.Adam(G.parameters(), betas=(0.5, 0.999)), torch.optim.Adam(D.parameters(), betas=(0.5, 0.999))
bce = nn.BCEWithLogitsLoss()
for step in range(3):
    real = torch.randn(6, 8, device=device); fake = G(torch.randn(6, 4, device=device))
    one, zero = torch.ones(6, 1, device=device), torch.zeros(6, 1, device=device)
    ld = bce(D(real), one) + bce(D(fake.detach()), zero); od.zero_grad(); ld.backward(); od.step()
    lg = bce(D(fake), one); og.zero_grad(); lg.backward(); og.step()
mix = torch.rand(6, 1, device=device); between = (mix * real + (1 - mix) * fake.detach()).requires_grad_()
g, = torch.autograd.grad(D(between).sum(), between, create_graph=True); penalty = (g.norm(2, 1) - 1).pow(2).mean(); penalty.backward()
result = [ld, lg, penalty, D[0].weight.grad]
""",
    "vae": """
enc, dec = nn.Linear(6, 8).to(device), nn.Linear(4, 6).to(device)
opt = torch.optim.Adam([*enc.parameters(), *dec.parameters()], lr=0.01)
for step in range(3):
    x = torch.rand(5, 6, device=device); mu, logvar = enc(x).chunk(2, 1)
    z = mu + torch.randn_like(mu) * (0.5 * logvar).exp(); r = torch.sigmoid(dec(z))
    loss = F.binary_cross_entropy(r, x, reduction="sum") - 0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum()
    opt.zero_grad(); loss.backward(); opt.step()
kl = torch.distributions.kl_divergence(torch.distributions.Normal(mu, (0.5 * logvar).exp()), torch.distributions.Normal(0.0, 1.0))
result = [loss, kl, r]
""",
    "graph network by scatter": """
x = torch.randn(6, 4, device=device); edges = torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]]).to(device)
w = nn.Parameter(torch.randn(4, 4, device=device)); opt = torch.optim.SGD([w], lr=0.1)
for step in range(3):
    m = (x @ w)[edges[0]]; out = torch.zeros_like(x).index_add_(0, edges[1], m)
    deg = torch.zeros(6, device=device).scatter_add_(0, edges[1], torch.ones(6, device=device))
    pooled = torch.zeros(2, 4, device=device).index_add(0, torch.tensor([0, 0, 0, 1, 1, 1], device=device), out / deg[:, None])
    loss = F.nll_loss(pooled.log_softmax(1), torch.tensor([0, 1], device=device)); opt.zero_grad(); loss.backward(); opt.step()
result = [loss, w, torch.bincount(edges[0]), out.sort(0)[0]]
""",
    "detection head": """
boxes = torch.rand(10, 4, device=device); boxes[:, 2:] += boxes[:, :2]; truth = boxes[:3] + 0.01
lt, rb = torch.max(boxes[:, None, :2], truth[None, :, :2]), torch.min(boxes[:, None, 2:], truth[None, :, 2:])
wh = (rb - lt).clamp(min=0); inter = wh[..., 0] * wh[..., 1]; area = lambda b: (b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1])
iou = inter / (area(boxes)[:, None] + area(truth)[None] - inter); best, match = iou.max(1)
labels = torch.tensor([1, 2, 0], device=device)[match]; labels[best < 0.5] = 3
keep = torch.nonzero(best > 0.1, as_tuple=True)[0]
head = nn.Linear(4, 4).to(device); one = F.one_hot(labels, 4).float()
loss = F.binary_cross_entropy_with_logits(head(boxes), one, reduction="none").mean() + F.smooth_l1_loss(head(boxes)[keep], truth[match[keep]])
loss.backward(); result = [loss, labels, keep, head.weight.grad]
""",
    "policy gradient": """
pi = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2)).to(device); opt = torch.optim.Adam(pi.parameters(), lr=0.01)
for episode in range(3):
    logs, rewards = [], []; s = torch.zeros(3, device=device)
    for t in range(5):
        d = torch.distributions.Categorical(logits=pi(s)); a = d.sample(); logs.append(d.log_prob(a)); rewards.append(float(a.item()))
        s = s + torch.randn(3, device=device) * 0.1
    returns = torch.tensor(rewards, device=device).flip(0).cumsum(0).flip(0); returns = (returns - returns.mean()) / (returns.std() + 1e-6)
    loss = -(torch.stack(logs) * returns).sum(); opt.zero_grad(); loss.backward(); opt.step()
result = [loss, returns, s]
""",
    "contrastive with a momentum encoder": """
q = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4)).to(device); k = copy.deepcopy(q)
for p in k.parameters(): p.requires_grad = False
queue = F.normalize(torch.randn(4, 10, device=device), dim=0); opt = torch.optim.SGD(q.parameters(), lr=0.1)
for step in range(3):
    x = torch.randn(4, 6, device=device); a = F.normalize(q(x), dim=1)
    with torch.no_grad():
        for pq, pk in zip(q.parameters(), k.parameters()): pk.data.mul_(0.9).add_(pq.data, alpha=0.1)
        b = F.normalize(k(x), dim=1)
    logits = torch.cat([torch.einsum("nc,nc->n", a, b)[:, None], a @ queue], 1) / 0.1
    loss = F.cross_entropy(logits, torch.zeros(4, dtype=torch.long, device=device)); opt.zero_grad(); loss.backward(); opt.step()
    queue = torch.cat([b.T, queue], 1)[:, :10]
result = [loss, queue] + list(k.state_dict().values())
""",
    "diffusion step": """
beta = torch.linspace(1e-4, 0.02, 20, device=device); alpha = torch.cumprod(1 - beta, 0)
net = nn.Sequential(nn.Linear(5, 16), nn.SiLU(), nn.Linear(16, 4)).to(device); opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
for step in range(3):
    x0 = torch.randn(6, 4, device=device); t = torch.randint(0, 20, (6,), device=device); e = torch.randn_like(x0)
    a = alpha.gather(0, t)[:, None]; xt = a.sqrt() * x0 + (1 - a).sqrt() * e
    loss = F.mse_loss(net(torch.cat([xt, t[:, None].float() / 20], 1)), e); opt.zero_grad(); loss.backward(); opt.step()
result = [loss, alpha, xt]
""",
    "mixed precision with a scaler": """
m = nn.Linear(6, 3).to(device); opt = torch.optim.SGD(m.parameters(), lr=0.1)
on = DEVICE == "cuda"
scaler = torch.cuda.amp.GradScaler(enabled=on)
for step in range(3):
    with torch.autocast("cuda", enabled=on):
        loss = m(torch.randn(4, 6, device=device)).pow(2).mean()
    opt.zero_grad(); scaler.scale(loss).backward(); scaler.unscale_(opt)
    nn.utils.clip_grad_value_(m.parameters(), 1.0); scaler.step(opt); scaler.update()
result = [loss, m.weight]
""",
    "custom autograd function and hooks": """
class Clip(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): ctx.save_for_backward(x); return x.clamp(-1, 1)
    @staticmethod
    def backward(ctx, g): x, = ctx.saved_tensors; return g * torch.ones(x.shape, device=x.device)
seen = []
m = nn.Linear(4, 4).to(device); m.register_full_backward_hook(lambda mod, gi, go: seen.append(go[0]))
x = torch.randn(3, 4, device=device, requires_grad=True); y = Clip.apply(m(x)); y.register_hook(lambda g: seen.append(g) or g * 2)
from torch.utils.checkpoint import checkpoint
z = checkpoint(m, y, use_reentrant=False); z.sum().backward()
result = [x.grad, m.weight.grad] + [s + torch.zeros(1, device=device) for s in seen]
""",
    "saved, loaded and resumed": """
import io
m = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).to(device); opt = torch.optim.Adam(m.parameters())
def step():
    opt.zero_grad(); l = m(torch.randn(5, 3, device=device)).pow(2).sum(); l.backward(); opt.step(); return l
step(); f = io.BytesIO(); torch.save({"model": m.state_dict(), "opt": opt.state_dict(), "step": 1}, f); f.seek(0)
ck = torch.load(f, map_location=device); m2 = copy.deepcopy(m); m2.load_state_dict(ck["model"]); opt.load_state_dict(ck["opt"]); l = step()
result = [l] + list(m.state_dict().values()) + list(m2.state_dict().values()) + list(ck["model"].values())
""",
    "mixture of experts": """
class MoE(nn.Module):
    def __init__(self):
        super().__init__(); self.gate = nn.Linear(6, 4); self.experts = nn.ModuleList(nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 6)) for _ in range(4))
    def forward(self, x):
        w, pick = self.gate(x).softmax(-1).topk(2, dim=-1); out = torch.zeros_like(x)
        for k, expert in enumerate(self.experts):
            row, slot = torch.where(pick == k)
            if row.numel(): out.index_add_(0, row, expert(x[row]) * w[row, slot][:, None])
        load = F.one_hot(pick, 4).float().mean((0, 1)); return out, (load * self.gate(x).softmax(-1).mean(0)).sum()
m = MoE().to(device); opt = torch.optim.AdamW(m.parameters(), lr=0.01)
for step in range(3):
    x = torch.randn(10, 6, device=device); y, balance = m(x); loss = F.mse_loss(y, x) + 0.1 * balance
    opt.zero_grad(); loss.backward(); opt.step()
result = [loss, y] + list(m.state_dict().values())
""",
    "siamese network with triplets": """
net = nn.Sequential(nn.Conv1d(2, 4, 3), nn.PReLU(), nn.AvgPool1d(2), nn.Flatten(), nn.Linear(12, 5)).to(device)
opt = torch.optim.Adagrad(net.parameters(), lr=0.05); triplet, cosine = nn.TripletMarginLoss(0.5), nn.CosineEmbeddingLoss(0.2)
for step in range(3):
    a, p, n = (torch.randn(4, 2, 8, device=device) for _ in range(3)); ea, ep, en = net(a), net(p), net(n)
    loss = triplet(ea, ep, en) + cosine(ea, en, -torch.ones(4, device=device)) + F.pairwise_distance(ea, ep).clamp(min=0.1).mean()
    opt.zero_grad(); loss.backward(); opt.step()
result = [loss, torch.cdist(ea, en)] + list(net.parameters())
""",
    "vision transformer": """
class ViT(nn.Module):
    def __init__(self):
        super().__init__(); self.patch = nn.Conv2d(3, 16, 4, stride=4); self.cls = nn.Parameter(torch.zeros(1, 1, 16))
        self.pos = nn.Parameter(torch.randn(1, 5, 16) * 0.02); self.att = nn.MultiheadAttention(16, 4, batch_first=True)
        self.a, self.b = nn.LayerNorm(16), nn.LayerNorm(16); self.mlp = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Dropout(0.1), nn.Linear(32, 16)); self.head = nn.Linear(16, 3)
    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2); x = torch.cat([self.cls.expand(len(x), -1, -1), x], 1) + self.pos
        h = self.a(x); x = x + self.att(h, h, h)[0]; x = x + self.mlp(self.b(x)); return self.head(x[:, 0])
m = ViT().to(device); opt = torch.optim.AdamW(m.parameters(), lr=1e-3); sched = torch.optim.lr_scheduler.OneCycleLR(opt, 0.01, total_steps=4)
for step in range(3):
    x, y = torch.rand(2, 3, 8, 8, device=device), torch.randint(3, (2,), device=device)
    loss = nn.CrossEntropyLoss(label_smoothing=0.1)(m(x), y); opt.zero_grad(); loss.backward(); opt.step(); sched.step()
result = [loss] + list(m.state_dict().values())
""",
    "denoising autoencoder": """
enc = nn.Sequential(nn.Conv2d(1, 4, 3, stride=2, padding=1), nn.InstanceNorm2d(4, affine=True), nn.ELU(), nn.Conv2d(4, 8, 3, stride=2, padding=1))
dec = nn.Sequential(nn.ConvTranspose2d(8, 4, 4, 2, 1), nn.Hardtanh(), nn.Upsample(scale_factor=2), nn.Conv2d(4, 1, 3, padding=1), nn.Sigmoid())
m = nn.Sequential(enc, dec).to(device); opt = torch.optim.Adamax(m.parameters(), lr=0.01); ema = torch.optim.swa_utils.AveragedModel(m)
for step in range(3):
    x = torch.rand(2, 1, 8, 8, device=device); noisy = (x + 0.1 * torch.randn_like(x)).clamp(0, 1); r = m(noisy)
    loss = F.binary_cross_entropy(r, x) + F.huber_loss(r, x) + F.l1_loss(r, x); opt.zero_grad(); loss.backward(); opt.step(); ema.update_parameters(m)
result = [loss, r] + list(ema.module.state_dict().values())
""",
    "sequence to sequence with attention": """
class Seq2Seq(nn.Module):
    def __init__(self):
        super().__init__(); self.e = nn.Embedding(12, 6, padding_idx=0); self.enc = nn.GRU(6, 8, batch_first=True); self.dec = nn.GRUCell(14, 8); self.out = nn.Linear(8, 12)
    def forward(self, src, tgt):
        keys, h = self.enc(self.e(src)); h = h[-1]; mask = (src == 0); outs = []
        for t in range(tgt.shape[1]):
            score = torch.bmm(keys, h[:, :, None])[..., 0].masked_fill(mask, -1e9); c = (score.softmax(1)[:, :, None] * keys).sum(1)
            h = self.dec(torch.cat([self.e(tgt[:, t]), c], 1), h); outs.append(self.out(h))
        return torch.stack(outs, 1)
m = Seq2Seq().to(device); opt = torch.optim.Adam(m.parameters(), lr=0.01)
for step in range(3):
    src, tgt = torch.randint(0, 12, (3, 6), device=device), torch.randint(1, 12, (3, 5), device=device)
    logits = m(src, tgt[:, :-1]); loss = F.cross_entropy(logits.transpose(1, 2), tgt[:, 1:], ignore_index=0)
    opt.zero_grad(); loss.backward(); nn.utils.clip_grad_norm_(m.parameters(), 1.0); opt.step()
result = [loss, logits] + list(m.state_dict().values())
""",
    "word vectors by negative sampling": """
u, v = nn.Embedding(20, 5, sparse=True).to(device), nn.EmbeddingBag(20, 5, mode="mean").to(device)
sparse, dense = torch.optim.SparseAdam(u.parameters(), lr=0.01), torch.optim.SGD(v.parameters(), lr=0.1)
counts = torch.rand(20, device=device) + 0.1
for step in range(3):
    centre = torch.randint(20, (6,), device=device); bag = torch.randint(20, (18,), device=device); offsets = torch.arange(0, 18, 3, device=device)
    negative = torch.multinomial(counts, 24, replacement=True).view(6, 4); c = v(bag, offsets)
    loss = -F.logsigmoid((u(centre) * c).sum(1)).mean() - F.logsigmoid(-(u(negative) @ c[:, :, None])).mean()
    sparse.zero_grad(); dense.zero_grad(); loss.backward(); sparse.step(); dense.step()
result = [loss, u.weight, v.weight, torch.unique(centre), F.cosine_similarity(u.weight[:1], u.weight)]
""",
    "normalising flow": """
class Coupling(nn.Module):
    def __init__(self, flip):
        super().__init__(); self.flip = flip; self.net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 4))
    def forward(self, x):
        a, b = x.chunk(2, 1); a, b = (b, a) if self.flip else (a, b); s, t = self.net(a).chunk(2, 1); s = torch.tanh(s)
        b = b * s.exp() + t; return torch.cat([b, a] if self.flip else [a, b], 1), s.sum(1)
flow = nn.ModuleList([Coupling(False), Coupling(True)]).to(device); opt = torch.optim.NAdam(flow.parameters(), lr=0.01)
base = torch.distributions.MultivariateNormal(torch.zeros(4, device=device), torch.eye(4, device=device))
for step in range(3):
    z = torch.randn(6, 4, device=device); logdet = torch.zeros(6, device=device)
    for layer in flow: z, d = layer(z); logdet = logdet + d
    loss = -(base.log_prob(z) + logdet).mean(); opt.zero_grad(); loss.backward(); opt.step()
result = [loss, z, torch.linalg.slogdet(torch.eye(4, device=device) * 2)[1]]
""",
    "q-learning from a replay buffer": """
q = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2)).to(device); target = copy.deepcopy(q); opt = torch.optim.RMSprop(q.parameters(), lr=0.01)
memory = [(torch.randn(3), torch.randint(2, (1,)), torch.randn(1), torch.randn(3)) for _ in range(16)]
for step in range(3):
    s, a, r, n = (torch.stack(column).to(device, non_blocking=True) for column in zip(*memory[step:step + 8]))
    with torch.no_grad(): goal = r + 0.9 * target(n).max(1, keepdim=True)[0]
    chosen = q(s).gather(1, a); loss = F.smooth_l1_loss(chosen, goal); opt.zero_grad(); loss.backward(); opt.step()
    target.load_state_dict({k: 0.9 * v + 0.1 * q.state_dict()[k] for k, v in target.state_dict().items()})
    greedy = q(s).argmax(1).cpu().numpy().tolist()
result = [loss, torch.tensor(greedy, device=device)] + list(target.state_dict().values())
""",
    "speech recognition with ctc": """
net = nn.GRU(4, 6, bidirectional=True).to(device); head = nn.Linear(12, 5).to(device); opt = torch.optim.Adam([*net.parameters(), *head.parameters()])
for step in range(3):
    x = torch.randn(10, 2, 4, device=device); p = head(net(x)[0]).log_softmax(2); y = torch.randint(1, 5, (2, 3), device=device)
    loss = F.ctc_loss(p, y, torch.full((2,), 10, dtype=torch.long), torch.full((2,), 3, dtype=torch.long)); opt.zero_grad(); loss.backward(); opt.step()
result = [loss, p.argmax(2)] + list(head.parameters())
""",
    "spatial transformer and roi crops": """
loc = nn.Sequential(nn.Flatten(), nn.Linear(64, 6)).to(device); nn.init.zeros_(loc[1].weight); loc[1].bias.data.copy_(torch.tensor([1., 0, 0, 0, 1, 0]))
opt = torch.optim.SGD(loc.parameters(), lr=0.1)
for step in range(3):
    x = torch.rand(2, 1, 8, 8, device=device); grid = F.affine_grid(loc(x).view(-1, 2, 3), x.size(), align_corners=False)
    y = F.grid_sample(x, grid, align_corners=False); loss = (F.adaptive_max_pool2d(y, 2) - F.unfold(x, 4, stride=4).mean(1).view(2, 1, 2, 2)).pow(2).mean()
    opt.zero_grad(); loss.backward(); opt.step()
result = [loss, y, F.pad(y, (1, 1, 1, 1), mode="reflect"), torch.roll(x, 1, 2)]
""",
    "linear regression by lbfgs": """
x, w = torch.randn(20, 3, device=device), torch.tensor([1., -2., 3.], device=device); y = x @ w; m = nn.Linear(3, 1).to(device)
opt = torch.optim.LBFGS(m.parameters(), max_iter=5)
def closure():
    opt.zero_grad(); l = F.mse_loss(m(x)[:, 0], y); l.backward(); return l
loss = opt.step(closure)
result = [loss.detach(), m.weight, torch.linalg.norm(w)]
""",
}

# one call for each assert that a CPU can show; x is 4 by 5, i makes indices
SETUP = """import torch, torch.nn.functional as F
x = torch.randn(4, 5, device='cuda')
i = lambda *v: torch.tensor(v, device='cuda')
"""


# without blocking launches: a second step that fails, after a first that has loaded every kernel
HELD = """
import torch, torch.nn as nn, torch.nn.functional as F
m, t = nn.Linear(5, 5).cuda(), torch.zeros(4, dtype=torch.long, device="cuda")
x = torch.randn(4, 5, device="cuda")
def step(t):
    loss = F.cross_entropy(m(x * 2), t)
    loss.backward()
    m.weight.data.add_(m.weight.grad, alpha=-0.1)
    return loss
loss = step(t)
t[2] = 7
held = step(t)
%s
print("unreached")
"""
WAITING = ("held.item()", "print(held)", "float(held)", "x.cpu()", "bool(x.sum() > 0)", "torch.nonzero(x)", "x[x > 0]",
           "x.tolist()", "torch.cuda.synchronize()", "torch.zeros(9, device='cuda')", "torch.ones(3).cuda()",
           "x.masked_select(x > 0)", "torch.save(x, __import__('io').BytesIO())", "torch.equal(x, x)", "x.sigmoid()",
           "torch.randn(4, 5, device='cuda').mul(2)", "torch.cuda.Event().synchronize()",
           "torch.cuda.current_stream().synchronize()")
GOES_ON = ("x = x * 2", "x.view(-1)", "held.detach()", "step(t)", "torch.ones(2).sum().item()")
FIRST_PRODUCT = """
import torch
e, m = torch.nn.Embedding(4, 8).cuda(), torch.nn.Linear(8, 2).cuda()
h = e(torch.tensor([1, 9]).cuda())
m(h)
"""


def calls(version):
    """(call, file, function) of every assert that this torch version has."""
    old, new = version < (2, 0), version >= (2, 8)
    table = [
        ("F.nll_loss(x, i(0, 1, 9, 2))", "Loss.cu", "nll_loss_forward_reduce_cuda_kernel_2d"),
        ("F.nll_loss(x[0], i(9)[0])", "Loss.cu", "nll_loss_forward_reduce_cuda_kernel_1d"),
        ("F.cross_entropy(x, i(0, -1, 1, 2), reduction='none')", "Loss.cu", "nll_loss_forward_no_reduce_cuda_kernel"),
        ("F.cross_entropy(x.view(1, 5, 2, 2), i(0, 1, 9, 2).view(1, 2, 2))", "NLLLoss2d.cu", "nll_loss2d_forward_kernel"),
        ("F.binary_cross_entropy(x + 9, x)", "Loss.cu", "operator()"),
        ("F.embedding(i(0, 9), x)", "Indexing.cu", "indexSelectSmallIndex"),
        ("x.index_select(1, i(5))", "Indexing.cu", "indexSelectSmallIndex"),
        ("F.embedding(torch.full((20,), 9).cuda(), x[:, :4].contiguous())",
         "IndexKernelUtils.cu" if new else "Indexing.cu",
         "vectorized_gather_kernel" if new else "indexSelectLargeIndex"),
        ("torch.randn(20, 9).cuda().index_select(0, torch.full((100,), 20).cuda())",
         "ScatterGatherKernel.cu" if new else "Indexing.cu", "operator()" if new else "indexSelectLargeIndex"),
        ("x[:, :4].contiguous()[i(0, 9)]", "IndexKernelUtils.cu" if new else "IndexKernel.cu",
         "vectorized_gather_kernel" if new else "operator()"),
        ("F.embedding_bag(i(1, 2, 3), x, i(0, 2, 1))", "EmbeddingBag.cu", "EmbeddingBag_updateOutputKernel_sum_mean"),
        ("F.nll_loss(x, torch.tensor([0, 255, 1, 2]).byte().cuda(), reduction='none')", "Loss.cu",
         "nll_loss_forward_no_reduce_cuda_kernel"),
        ("x[i(0, 9)]", "IndexKernel.cu", "operator()"), ("x[[0, 9]]", "IndexKernel.cu", "operator()"),
        ("x[:, i(0, 9)] = 1", "IndexKernel.cu", "operator()"),
        ("x.index_fill_(0, i(9), 1.)", "IndexKernel.cu", "operator()"),
        ("x.index_copy_(0, i(9), x[:1].clone())", "IndexKernel.cu", "operator()"),
        ("x.index_add_(0, i(9), x[:1].clone())", "Indexing.cu", "indexFuncSmallIndex"),
        ("x.index_add_(0, torch.full((20,), 9).cuda(), torch.ones(20, 5).cuda())", "Indexing.cu", "indexFuncLargeIndex"),
        ("x.take(i(99))", "IndexKernel.cu", "operator()"), ("x.put_(i(99), x[0, :1].clone())", "IndexKernel.cu", "operator()"),
        ("x.masked_scatter_(x == x, x[0].clone())", "IndexKernel.cu", "masked_scatter_size_check"),
        ("x.gather(1, i(9)[None])", "ScatterGatherKernel.cu", "operator()"),
        ("x.scatter_(1, i(9)[None], 1.)", "ScatterGatherKernel.cu", "operator()"),
        ("F.one_hot(i(0, -2), 4)", "ScatterGatherKernel.cu", "operator()"),
        ("torch.multinomial(torch.tensor([0.5, -1.]).cuda(), 3, True)", "MultinomialKernel.cu", "renormRowsL1"),
        ("torch.multinomial(torch.zeros(3).cuda(), 3, True)", "MultinomialKernel.cu", "binarySearchForMultinomial"),
        ("torch.bernoulli(x + 9)", "DistributionTemplates.h", "operator()"),
        ("torch.poisson(x - 99)", "Distributions.cu", "operator()"),
        ("torch.repeat_interleave(i(1, 2), output_size=9)", "Repeat.cu", "compute_cuda_kernel"),
        ("torch._assert_async(x[0, 0] * 0)", "TensorCompare.cu", "_assert_async_cuda_kernel"),
        ("F.max_unpool2d(x[None, None, :2, :2], i(0, 1, 2, 99).view(1, 1, 2, 2), 2)", "MaxUnpooling.cu",
         "max_unpooling2d_forward_kernel"),
        ("F.max_unpool3d(x[None, None, None, :2, :2], i(0, 1, 2, 999).view(1, 1, 1, 2, 2), 2)", "MaxUnpooling.cu",
         "max_unpooling3d_forward_kernel"),
    ]
    backward = "t = %s; l = F.nll_loss(%s.requires_grad_(), t%s); t.data.fill_(9); l.sum().backward()"
    table += [
        ("F.embedding_bag(i(1, 2, 3), x, i(0, 2, 1), mode='max')", "EmbeddingBag.cu", "EmbeddingBag_updateOutputKernel_max"),
        ("x.scatter_add_(0, i(9)[None], x[:1, :1].clone())", "ScatterGatherKernel.cu", "operator()"),
        ("torch.repeat_interleave(i(1, -2, 4), output_size=3)", "Repeat.cu", "compute_cuda_kernel"),
        ("torch.repeat_interleave(x, i(1, 1, -2, 4), dim=0, output_size=4)", "Repeat.cu", "compute_cuda_kernel"),
        ("torch.segment_reduce(x[0], 'sum', lengths=i(-1, 6), unsafe=True)", "SegmentReduce.cu", "segment_reduce_forward_kernel"),
        ("torch.eye(3).to_sparse().cuda().index_select(0, i(5))", "Indexing.cu", "operator()"),
        (backward % ("i(0, 1, 2, 3)", "x", ""), "Loss.cu", "nll_loss_backward_reduce_cuda_kernel_2d"),
        (backward % ("i(1)[0]", "x[0]", ""), "Loss.cu", "nll_loss_backward_reduce_cuda_kernel_1d"),
        (backward % ("i(0, 1, 2, 3)", "x", ", reduction='none'"), "Loss.cu", "nll_loss_backward_no_reduce_cuda_kernel"),
        (backward % ("i(0, 1, 2, 3).view(1, 2, 2)", "x.view(1, 5, 2, 2)", ""), "NLLLoss2d.cu", "nll_loss2d_backward_kernel"),
        ("torch.sparse_csr_tensor(i(0, 1, 2), i(0, 7), torch.ones(2).cuda(), (2, 2)%s)" % ("" if old else ", check_invariants=True"),
         "ValidateCompressedIndicesCommon.h", "_assert"),
    ]
    table += [("torch.bernoulli(torch.tensor(%s).cuda())" % [2. if at == k else .5 for at in range(4)], "DistributionTemplates.h",
               "operator()") for k in range(4)]
    if old:
        table += [("torch.multinomial(torch.tensor([%s]).cuda(), 1, True)" % values, "MultinomialKernel.cu", "sampleMultinomialOnce")
                  for values in ("1., float('nan')", "1., float('inf')", "1., -1.", "0., 0.")]
    else:
        pool = "x = torch.rand(%s, device='cuda', requires_grad=True); o, k = F.fractional_max_pool%dd_with_indices(x, 2, " \
               "output_size=2); k.data.fill_(999); o.sum().backward()"
        table += [
            ("x.index_put_((i(9),), x[0, :1].clone(), accumulate=True)", "TensorCompare.cu", "_assert_async_cuda_kernel"),
            ("torch._assert_async(x[0, 0] * 0, 'no batch')", "TensorCompare.cu", "_assert_async_cuda_kernel"),
            ("torch.multinomial(torch.zeros(3).cuda(), 1)", "TensorCompare.cu", "_assert_async_cuda_kernel"),
            (pool % ("1, 1, 4, 4", 2), "FractionalMaxPool2d.cu", "fractional_max_pool2d_backward_out_cuda_frame"),
            (pool % ("1, 1, 4, 4, 4", 3), "FractionalMaxPool3d.cu", "fractional_max_pool3d_backward_out_frame"),
            ("F.cross_entropy(x.view(1, 5, 2, 2), i(0, 1, 9, 2).view(1, 2, 2), reduction='none')", "NLLLoss2d.cu",
             "nll_loss2d_forward_no_reduce_kernel"),
            ("F.binary_cross_entropy(x.sigmoid(), x + 9)", "Loss.cu", "operator()"),
            ("F.multi_margin_loss(x, i(0, 1, 2, 5))", "MultiMarginLoss.cu", "MultiMarginLoss_forward_kernel"),
            ("F.embedding_bag(i(1, 9), x, i(0))", "EmbeddingBag.cu", "EmbeddingBag_updateOutputKernel_sum_mean"),
            ("F.embedding_bag(i(1, 9), x, i(0), mode='max')", "EmbeddingBag.cu", "EmbeddingBag_updateOutputKernel_max"),
            ("torch.multinomial(x, 1)", "TensorCompare.cu", "_assert_async_cuda_kernel"),
        ]
    return table
