"""Mixtures of experts, weights for each token, and users beside many candidates."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.kernels.problems import false_friend, problem

DIM, EXPERTS, SIZE = 8, 3, 6


def rows():
    return [torch.randn(4, DIM)]


class Mixture(nn.Module):
    def __init__(self, tasks=1):
        super().__init__()
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(DIM, SIZE), nn.ReLU()) for _ in range(EXPERTS))
        self.gates = nn.ModuleList(nn.Linear(DIM, EXPERTS) for _ in range(tasks))

    def forward(self, x):
        outputs = [expert(x) for expert in self.experts]
        return torch.cat([self.mixed(outputs, gate(x)) for gate in self.gates], dim=-1)


@problem(rows, [3], batch=(0,), gated_sum=3)
class ThreeTasks(Mixture):
    def mixed(self, outputs, logits):
        weights = torch.softmax(logits, dim=-1).unsqueeze(-1)
        return (weights * torch.stack(outputs, dim=1)).sum(dim=1)


@problem(rows, gated_sum=1)
class ExpertsLast(Mixture):
    """The experts are stacked behind the width."""

    def mixed(self, outputs, logits):
        stacked = torch.stack(outputs, dim=-1)
        return torch.sum(stacked * F.softmax(logits, dim=1).unsqueeze(1), dim=-1)


@problem(rows, gated_sum=1)
class ByEinsum(Mixture):
    def mixed(self, outputs, logits):
        return torch.einsum("ned,ne->nd", torch.stack(outputs, 1), logits.softmax(dim=1))


@problem(rows, gated_sum=1)
class ByBatchedProduct(Mixture):
    def mixed(self, outputs, logits):
        return torch.bmm(nn.Softmax(dim=1)(logits).unsqueeze(1), torch.stack(outputs, 1)).squeeze(1)


@problem(rows, gated_sum=1)
class ByMatmulOfTheStacked(Mixture):
    def mixed(self, outputs, logits):
        stacked = torch.stack(outputs, dim=2)
        return torch.matmul(stacked, torch.softmax(logits, -1).unsqueeze(2)).squeeze(2)


@false_friend("gated_sum", rows)
class GatesOfTheirOwn(Mixture):
    def mixed(self, outputs, logits):
        return (torch.sigmoid(logits).unsqueeze(-1) * torch.stack(outputs, 1)).sum(1)


@false_friend("gated_sum", rows)
class SoftmaxOverTheBatch(Mixture):
    def mixed(self, outputs, logits):
        return (torch.softmax(logits, dim=0).unsqueeze(-1) * torch.stack(outputs, 1)).sum(1)


@false_friend("gated_sum", rows)
class MeanOfTheGated(Mixture):
    def mixed(self, outputs, logits):
        return (torch.softmax(logits, dim=-1).unsqueeze(-1) * torch.stack(outputs, 1)).mean(1)


# ---- routers ---------------------------------------------------------------------------------------------------------


@problem(rows, batch=(0,), topk_gating=1)
class RouterOfMixtral(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(DIM, 5, bias=False)

    def forward(self, x):
        weights = F.softmax(self.gate(x), dim=1, dtype=torch.float)
        weights, chosen = torch.topk(weights, 2, dim=-1)
        weights /= weights.sum(dim=-1, keepdim=True)
        return weights, chosen


@problem(rows, topk_gating=1)
class BestThenSoftmax(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(DIM, 5)

    def forward(self, x):
        scores, chosen = self.gate(x).topk(2)
        return scores.softmax(dim=-1), chosen


@problem(lambda: [torch.randn(2, 3, DIM)], topk_gating=1)
class SwitchRouter(nn.Module):
    """The best expert alone."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(DIM, 5)

    def forward(self, x):
        weights, chosen = torch.topk(torch.softmax(self.gate(x), dim=-1), k=1, dim=-1)
        return weights, chosen


@false_friend("topk_gating", rows)
class SigmoidRouter(nn.Module):
    def forward(self, x):
        weights, chosen = torch.topk(torch.sigmoid(x), 2)
        return weights / weights.sum(-1, keepdim=True), chosen


@false_friend("topk_gating", lambda: [torch.randn(4, DIM) for _ in range(2)])
class ChosenByAnother(nn.Module):
    def forward(self, x, noise):
        _, chosen = torch.topk(x + noise, 2)
        return torch.softmax(x, -1).gather(1, chosen), chosen


@false_friend("topk_gating", rows)
class TheWorst(nn.Module):
    def forward(self, x):
        return tuple(torch.topk(torch.softmax(x, -1), 2, largest=False))


# ---- weights for each token ------------------------------------------------------------------------------------------


def mixed_tokens():
    return [torch.randn(2, 4, DIM)]


class PerToken(nn.Module):
    def __init__(self, tokens=4):
        super().__init__()
        self.w1, self.w2 = (nn.Parameter(torch.randn(tokens, *s) * 0.3) for s in ((DIM, 12), (12, DIM)))
        self.b1, self.b2 = nn.Parameter(torch.zeros(tokens, 12)), nn.Parameter(torch.zeros(tokens, DIM))


@problem(mixed_tokens, batch=(0,), per_token_linear=2)
class PerTokenFeedForward(PerToken):
    def forward(self, x):
        hidden = F.gelu(torch.einsum("btd,tdh->bth", x, self.w1) + self.b1)
        return torch.einsum("bth,thd->btd", hidden, self.w2) + self.b2


@problem(mixed_tokens, per_token_linear=1)
class TokensInFront(PerToken):
    def forward(self, x):
        return torch.bmm(x.transpose(0, 1), self.w1).transpose(0, 1) + self.b1


@problem(mixed_tokens, per_token_linear=1)
class RowsUnsqueezed(PerToken):
    def forward(self, x):
        return F.gelu(torch.matmul(x.unsqueeze(2), self.w1).squeeze(2) + self.b1)


@problem(mixed_tokens, per_token_linear=1)
class EllipsisInItsPlace(PerToken):
    def forward(self, x):
        return torch.einsum("b s i, s i o -> b s o", x, self.w1) + self.b1.unsqueeze(0)


@false_friend("per_token_linear", mixed_tokens)
class OneWeightForAllTokens(PerToken):
    def forward(self, x):
        return torch.einsum("btd,dh->bth", x, self.w1[0]) + self.b1


@false_friend("per_token_linear", lambda: [torch.randn(4, 4, DIM)])
class AWeightForEachRow(PerToken):
    """Of as many rows as tokens, so that only the letters tell them apart."""

    def forward(self, x):
        return torch.einsum("btd,bdh->bth", x, self.w1) + self.b1


@false_friend("per_token_linear", lambda: [torch.randn(2, 4, 4)])
class WeightTransposed(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(4, 4, 4)), nn.Parameter(torch.randn(4, 4))

    def forward(self, x):
        return torch.einsum("btd,thd->bth", x, self.weight) + self.bias


# ---- users beside candidates -----------------------------------------------------------------------------------------


def user_and_candidates():
    return [torch.randn(2, 5), torch.randn(2, 3, DIM)]


class UserTower(nn.Module):
    def __init__(self, width=5 + DIM):
        super().__init__()
        self.fc = nn.Linear(width, 7)


@problem(user_and_candidates, batch=(0, 1), broadcast_linear=1)
class UserExpanded(UserTower):
    def forward(self, user, candidates):
        user = user.unsqueeze(1).expand(-1, candidates.size(1), -1)
        return torch.relu(self.fc(torch.cat([user, candidates], dim=-1)))


@problem(user_and_candidates, broadcast_linear=1)
class UserRepeated(UserTower):
    def forward(self, user, candidates):
        user = user[:, None].repeat(1, candidates.shape[1], 1)
        return self.fc(torch.cat((user, candidates), 2))


@problem(user_and_candidates, broadcast_linear=1)
class UserInterleaved(UserTower):
    def forward(self, user, candidates):
        user = user.unsqueeze(1).repeat_interleave(candidates.shape[1], dim=1)
        return self.fc(torch.cat((user, candidates), -1))


@false_friend("broadcast_linear", lambda: [torch.randn(2, 3, 5), torch.randn(2, 3, DIM)])
class AUserForEachCandidate(UserTower):
    def forward(self, user, candidates):
        return self.fc(torch.cat([user, candidates], dim=-1))


@false_friend("broadcast_linear", lambda: [torch.randn(2, 3, 5), torch.randn(2, DIM)])
class TheCandidateIsRepeated(UserTower):
    def forward(self, users, candidate):
        return self.fc(torch.cat([users, candidate.unsqueeze(1).expand(-1, 3, -1)], dim=-1))


@false_friend("broadcast_linear", lambda: [torch.randn(3, 5), torch.randn(2, 3, DIM)])
class UsersAlongTheCandidates(UserTower):
    def forward(self, user, candidates):
        user = user.unsqueeze(0).expand(2, -1, -1)
        return self.fc(torch.cat([user, candidates], dim=-1))
