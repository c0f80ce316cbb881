"""Feature interactions of rankers: dot products of pairs, factorization machines, cross layers."""

import torch
from torch import nn

from tests.kernels.problems import false_friend, problem

FIELDS, DIM, WIDTH = 4, 6, 10


def fields():
    return [torch.randn(3, FIELDS, DIM)]


def dense():
    return [torch.randn(3, WIDTH)]


# ---- dot products of pairs -------------------------------------------------------------------------------------------


@problem(lambda: [torch.randn(3, DIM), torch.randn(3, FIELDS, DIM)], batch=(0, 1), dot_interaction=1)
class LowerTriangle(nn.Module):
    def __init__(self):
        super().__init__()
        row, column = torch.tril_indices(FIELDS + 1, FIELDS + 1, offset=-1)
        self.register_buffer("row", row)
        self.register_buffer("column", column)

    def forward(self, bottom, embedded):
        both = torch.cat([bottom.unsqueeze(1), embedded], dim=1)
        products = torch.bmm(both, torch.transpose(both, 1, 2))
        return torch.cat([bottom, products[:, self.row, self.column]], dim=1)


@problem(fields, dot_interaction=1)
class IndicesMadeOnTheWay(nn.Module):
    def forward(self, x):
        products = x @ x.transpose(-1, -2)
        i = torch.tensor([i for i in range(FIELDS) for _ in range(i)])
        j = torch.tensor([j for i in range(FIELDS) for j in range(i)])
        return products[:, i, j]


@problem(fields, dot_interaction=1)
class EinsumOfPairs(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("pairs", torch.triu_indices(FIELDS, FIELDS, offset=1))

    def forward(self, x):
        products = torch.einsum("b i d, b j d -> b i j", x, x)
        return products[:, self.pairs[0], self.pairs[1]]


@problem(fields, dot_interaction=1)
class InnerProductLayer(nn.Module):
    """Takes the fields of each pair first, and multiplies them."""

    def __init__(self):
        super().__init__()
        row, column = zip(*[(i, j) for i in range(FIELDS - 1) for j in range(i + 1, FIELDS)], strict=True)
        self.register_buffer("row", torch.tensor(row))
        self.register_buffer("col", torch.tensor(column))

    def forward(self, x):
        return torch.sum(x[:, self.row] * x[:, self.col], dim=2)


@problem(
    fields,
    dot_interaction=1,
    missed={"dot_interaction": 1},
    because="the pairs are places in a flattened matrix; two vectors of fields are not in the graph",
)
class PlacesInTheFlattenedMatrix(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("places", torch.tensor([4, 8, 9, 12, 13, 14]))

    def forward(self, x):
        return torch.bmm(x, x.transpose(1, 2)).flatten(1)[:, self.places]


@false_friend("dot_interaction", fields)
class WithAnotherMatrix(nn.Module):
    def forward(self, x):
        products = torch.bmm(x, torch.tanh(x).transpose(1, 2))
        return products[:, [1, 2], [0, 1]]


@false_friend("dot_interaction", lambda: [torch.randn(3, DIM, DIM)])
class NotTransposed(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("row", torch.tensor([1, 2]))
        self.register_buffer("col", torch.tensor([0, 1]))

    def forward(self, x):
        return torch.bmm(x, x)[:, self.row, self.col]


@false_friend("dot_interaction", fields)
class ProductsOfPairsUnsummed(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("row", torch.tensor([1, 2]))
        self.register_buffer("col", torch.tensor([0, 1]))

    def forward(self, x):
        return (x[:, self.row] * x[:, self.col]).sum(1)


# ---- factorization machines ------------------------------------------------------------------------------------------


@problem(fields, batch=(0,), fm_second_order=1)
class FactorizationMachine(nn.Module):
    def forward(self, x):
        square_of_sum = torch.sum(x, dim=1) ** 2
        sum_of_square = torch.sum(x**2, dim=1)
        ix = torch.sum(square_of_sum - sum_of_square, dim=1, keepdim=True)
        return 0.5 * ix


@problem(fields, fm_second_order=1)
class DimensionsKept(nn.Module):
    def forward(self, x):
        square_of_sum = torch.pow(torch.sum(x, dim=1, keepdim=True), 2)
        sum_of_square = torch.sum(x * x, dim=1, keepdim=True)
        return 0.5 * torch.sum(square_of_sum - sum_of_square, dim=2)


@problem(fields, fm_second_order=1)
class HalvedFirst(nn.Module):
    def forward(self, x):
        return ((x.sum(1).square() - x.square().sum(1)) / 2).sum(-1)


@problem(fields, fm_second_order=1)
class MeanOfNothingButFactors(nn.Module):
    """The total times itself, halved by a multiplication behind."""

    def forward(self, x):
        total = x.sum(dim=-2)
        return (total * total - (x * x).sum(dim=-2)).sum(dim=-1, keepdim=True).mul(0.5)


@false_friend("fm_second_order", fields)
class BiInteraction(nn.Module):
    """A vector of pairwise products: the last sum is missing."""

    def forward(self, x):
        return 0.5 * (x.sum(1) ** 2 - (x**2).sum(1))


@false_friend("fm_second_order", fields)
class NotHalved(nn.Module):
    def forward(self, x):
        return (x.sum(1) ** 2 - (x**2).sum(1)).sum(-1)


@false_friend("fm_second_order", fields)
class SummedOverTheWidthFirst(nn.Module):
    def forward(self, x):
        return 0.5 * (x.sum(2) ** 2 - (x**2).sum(2)).sum(-1)


@false_friend("fm_second_order", fields)
class ThePlusOfVariance(nn.Module):
    def forward(self, x):
        return 0.5 * (x.mean(1) ** 2 - (x**2).mean(1)).sum(-1)


@false_friend("fm_second_order", lambda: [torch.randn(3, FIELDS, DIM) for _ in range(2)])
class SquaresOfOtherFields(nn.Module):
    def forward(self, x, y):
        return 0.5 * (x.sum(1) ** 2 - (y**2).sum(1)).sum(-1)


# ---- cross layers ----------------------------------------------------------------------------------------------------


class Cross(nn.Module):
    def __init__(self, layers=2):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(layers))

    def forward(self, x0):
        x = x0
        for layer in self.layers:
            x = self.step(x0, x, layer)
        return x


@problem(dense, batch=(0,), cross_layer=2)
class CrossNetwork(Cross):
    def step(self, x0, x, layer):
        return x0 * layer(x) + x


@problem(dense, cross_layer=2)
class ResidualFirst(Cross):
    def step(self, x0, x, layer):
        x = x + layer(x) * x0
        return x


@problem(dense, cross_layer=2)
class AddedInPlace(Cross):
    def step(self, x0, x, layer):
        out = layer(x).mul_(x0)
        out += x
        return out


@problem(dense, cross_layer=2)
class Addcmul(Cross):
    def step(self, x0, x, layer):
        return torch.addcmul(x, x0, layer(x))


@problem(dense, cross_layer=2)
class OwnParameters(nn.Module):
    """Weights of [in, out] and a bias behind the product."""

    def __init__(self):
        super().__init__()
        self.w = nn.ParameterList(nn.Parameter(torch.randn(WIDTH, WIDTH)) for _ in range(2))
        self.b = nn.ParameterList(nn.Parameter(torch.zeros(WIDTH)) for _ in range(2))

    def forward(self, x0):
        x = x0
        for w, b in zip(self.w, self.b, strict=True):
            x = x0 * (torch.matmul(x, w) + b) + x
        return x


@false_friend("cross_layer", dense)
class LowRank(nn.Module):
    def __init__(self):
        super().__init__()
        self.v, self.u = nn.Linear(WIDTH, 2, bias=False), nn.Linear(2, WIDTH)

    def forward(self, x0):
        return x0 * self.u(self.v(x0)) + x0


@false_friend("cross_layer", dense)
class FirstVersion(nn.Module):
    """A vector in place of a matrix: one number for each row."""

    def __init__(self):
        super().__init__()
        self.w, self.b = nn.Linear(WIDTH, 1, bias=False), nn.Parameter(torch.zeros(WIDTH))

    def forward(self, x0):
        return x0 * self.w(x0) + self.b + x0


@false_friend("cross_layer", dense)
class BiasOutsideTheProduct(nn.Module):
    def __init__(self):
        super().__init__()
        self.w, self.b = nn.Parameter(torch.randn(WIDTH, WIDTH)), nn.Parameter(torch.randn(WIDTH))

    def forward(self, x0):
        return x0 * (x0 @ self.w) + self.b


@false_friend("cross_layer", dense)
class GateOfAHighway(Cross):
    def step(self, x0, x, layer):
        return x0 * torch.sigmoid(layer(x)) + x


@false_friend("cross_layer", dense)
class TwiceTheProduct(Cross):
    def step(self, x0, x, layer):
        return torch.addcmul(x, x0, layer(x), value=2)
