"""Losses as heads of classifiers, language models and multi-task rankers compute them."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.kernels.problems import false_friend, problem

ROWS, DIM, CLASSES = 6, 8, 5


def labelled():
    return [torch.randn(ROWS, DIM), torch.randint(0, CLASSES, (ROWS,))]


def logits():
    return [torch.randn(ROWS, CLASSES), torch.randint(0, CLASSES, (ROWS,))]


def clicks():
    return [torch.randn(ROWS, DIM), torch.randint(0, 2, (ROWS, 3)).float()]


@problem(labelled, batch=(0, 1), cross_entropy=1)
class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(DIM, CLASSES)
        self.criterion = nn.CrossEntropyLoss()

    def forward(self, x, y):
        return self.criterion(self.head(x), y)


@problem(logits, cross_entropy=1)
class SummedWithIgnoredClass(nn.Module):
    def forward(self, x, y):
        return F.cross_entropy(x, y, ignore_index=0, reduction="sum")


@problem(logits, cross_entropy=1)
class LossOfEachRow(nn.Module):
    def forward(self, x, y):
        return F.cross_entropy(x, y, reduction="none")


@problem(logits, cross_entropy=1)
class LogSoftmaxAndNll(nn.Module):
    def forward(self, x, y):
        return F.nll_loss(F.log_softmax(x, dim=-1), y)


@problem(logits, cross_entropy=1)
class LogSoftmaxModules(nn.Module):
    def __init__(self):
        super().__init__()
        self.log_softmax, self.loss = nn.LogSoftmax(dim=1), nn.NLLLoss(reduction="sum")

    def forward(self, x, y):
        return self.loss(self.log_softmax(x), y)


@problem(logits, cross_entropy=1)
class GatheredLogProbabilities(nn.Module):
    def forward(self, x, y):
        picked = torch.log_softmax(x, dim=-1).gather(1, y.unsqueeze(1)).squeeze(1)
        return -picked.mean()


@problem(lambda: [torch.randint(0, 11, (2, 6))], cross_entropy=1)
class NextToken(nn.Module):
    def __init__(self, vocabulary=11):
        super().__init__()
        self.embed, self.mix = nn.Embedding(vocabulary, DIM), nn.Linear(DIM, DIM)
        self.lm_head = nn.Linear(DIM, vocabulary, bias=False)

    def forward(self, tokens):
        scores = self.lm_head(torch.tanh(self.mix(self.embed(tokens))))
        shifted = scores[:, :-1, :].contiguous().view(-1, scores.size(-1))
        return F.cross_entropy(shifted, tokens[:, 1:].reshape(-1))


@problem(labelled, batch=(0, 1), linear_cross_entropy=1)
class HeadWithoutBias(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(DIM, DIM), nn.Linear(DIM, CLASSES, bias=False)

    def forward(self, x, y):
        return F.cross_entropy(self.head(torch.relu(self.body(x))), y)


@problem(lambda: [torch.randn(2, 3, DIM), torch.randint(0, CLASSES, (2, 3))], linear_cross_entropy=1)
class HeadOfASequence(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(DIM, CLASSES, bias=False)

    def forward(self, x, y):
        scores = self.head(x)
        return F.cross_entropy(scores.view(-1, CLASSES), y.view(-1), ignore_index=-1)


@problem(labelled, linear_cross_entropy=1)
class TiedToAnEmbedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(CLASSES, DIM)

    def forward(self, x, y):
        return F.cross_entropy(x @ self.table.weight.t(), y, reduction="sum")


@problem(clicks, batch=(0, 1), weighted_bce=1)
class ThreeTasks(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.Linear(DIM, 3)
        self.loss = nn.BCEWithLogitsLoss()

    def forward(self, x, y):
        return self.loss(self.heads(x), y)


@problem(clicks, weighted_bce=1)
class RareClicksCountMore(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.Linear(DIM, 3)
        self.register_buffer("pos_weight", torch.tensor([4.0, 2.0, 1.0]))
        self.register_buffer("task_weight", torch.tensor([1.0, 0.5, 0.25]))

    def forward(self, x, y):
        return F.binary_cross_entropy_with_logits(
            self.heads(x), y, self.task_weight, reduction="sum", pos_weight=self.pos_weight
        )


@problem(clicks, weighted_bce=3)
class ATowerForEachTask(nn.Module):
    def __init__(self):
        super().__init__()
        self.towers = nn.ModuleList(nn.Linear(DIM, 1) for _ in range(3))

    def forward(self, x, y):
        found = [
            F.binary_cross_entropy_with_logits(tower(x).squeeze(-1), y[:, i]) for i, tower in enumerate(self.towers)
        ]
        return found[0] + 0.5 * found[1] + 0.1 * found[2]


@problem(clicks, weighted_bce=1)
class BySoftplus(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.Linear(DIM, 3)

    def forward(self, x, y):
        scores = self.heads(x)
        return (F.softplus(scores) - scores * y).mean()


@problem(clicks, weighted_bce=1)
class ByStableFormula(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.Linear(DIM, 3)

    def forward(self, x, y):
        z = self.heads(x)
        return torch.mean(z.clamp(min=0) - z * y + torch.log1p(torch.exp(-z.abs())))


# ---- what only looks like them ---------------------------------------------------------------------------------------


@false_friend("cross_entropy", logits)
class Smoothed(nn.Module):
    def forward(self, x, y):
        return F.cross_entropy(x, y, label_smoothing=0.1)


@false_friend("cross_entropy", logits)
class WeightedClasses(nn.Module):
    def __init__(self):
        super().__init__()
        self.loss = nn.CrossEntropyLoss(weight=torch.linspace(0.5, 2, CLASSES))

    def forward(self, x, y):
        return self.loss(x, y)


@false_friend("cross_entropy", lambda: [torch.randn(ROWS, CLASSES), torch.softmax(torch.randn(ROWS, CLASSES), -1)])
class TargetsAreProbabilities(nn.Module):
    def forward(self, x, y):
        return F.cross_entropy(x, y)


@false_friend("cross_entropy", lambda: [torch.randn(2, CLASSES, 3), torch.randint(0, CLASSES, (2, 3))])
class ClassesInTheMiddle(nn.Module):
    def forward(self, x, y):
        return F.cross_entropy(x, y)


@false_friend("cross_entropy", logits)
class NllOfAnotherAxis(nn.Module):
    def forward(self, x, y):
        return F.nll_loss(F.log_softmax(x, dim=0), y)


@false_friend("cross_entropy", lambda: [torch.randn(CLASSES, CLASSES), torch.randint(0, CLASSES, (CLASSES,))])
class AllFromTheFirstRow(nn.Module):
    """Square, so that the dimension of the targets alone tells."""

    def forward(self, x, y):
        return -torch.log_softmax(x, dim=-1).gather(1, y.unsqueeze(0)).mean()


@false_friend("cross_entropy", logits)
class NllOfProbabilities(nn.Module):
    """The logarithm was forgotten."""

    def forward(self, x, y):
        return F.nll_loss(F.softmax(x, dim=1), y)


@false_friend("linear_cross_entropy", labelled, cross_entropy=1)
class LogitsScaledByTemperature(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(DIM, CLASSES, bias=False)

    def forward(self, x, y):
        return F.cross_entropy(self.head(x) / 0.07, y)


@false_friend("linear_cross_entropy", labelled, cross_entropy=1)
class AnActivationBehindTheHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(DIM, CLASSES, bias=False)

    def forward(self, x, y):
        return F.cross_entropy(torch.relu(self.head(x)), y)


@false_friend("weighted_bce", clicks)
class OfProbabilities(nn.Module):
    """Clamped at log(p) = -100, so another function where a sigmoid saturates."""

    def __init__(self):
        super().__init__()
        self.heads = nn.Linear(DIM, 3)

    def forward(self, x, y):
        return F.binary_cross_entropy(torch.sigmoid(self.heads(x)), y)


@false_friend("weighted_bce", lambda: [*clicks(), torch.rand(ROWS, 1)])
class AWeightForEachRow(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.Linear(DIM, 3)

    def forward(self, x, y, weight):
        return F.binary_cross_entropy_with_logits(self.heads(x), y, weight)


@false_friend("weighted_bce", clicks)
class SharpSoftplus(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.Linear(DIM, 3)

    def forward(self, x, y):
        z = self.heads(x)
        return (F.softplus(z, beta=2) - z * y).mean()


@false_friend("weighted_bce", clicks)
class MeanOverOneTask(nn.Module):
    """The mean is of each row, not of all."""

    def __init__(self):
        super().__init__()
        self.heads = nn.Linear(DIM, 3)

    def forward(self, x, y):
        z = self.heads(x)
        return (F.softplus(z) - z * y).mean(dim=1)
