"""A ResNet-50-like image classifier: bottlenecks of three convolutions, each with its batch norm.

He et al., "Deep Residual Learning for Image Recognition", CVPR 2016 (arXiv:1512.03385); the stride in the 3 x 3
convolution, as PyTorch's own has it. The layers, (3, 4, 6, 3) bottlenecks and 1,000 classes are theirs; images of
128 x 128 in place of 224 x 224 and 2 images a call are ours. The norms' scales are drawn and their statistics are those
of four drawn images: untrained norms would be the identity, and all images would get nearly the same answer.
"""

import torch
import torch.nn as nn

SEED = 16
BATCH = 2
IMAGE = 128
CLASSES = 1000


class Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, channels, width, stride=1, downsample=None):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, width * self.expansion, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(width * self.expansion)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = downsample

    def forward(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        out += identity
        return self.relu(out)


class Model(nn.Module):
    def __init__(self, classes=CLASSES, blocks=(3, 4, 6, 3)):
        super().__init__()
        torch.manual_seed(SEED)
        self.channels = 64
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        self.layer1 = self.stage(64, blocks[0])
        self.layer2 = self.stage(128, blocks[1], stride=2)
        self.layer3 = self.stage(256, blocks[2], stride=2)
        self.layer4 = self.stage(512, blocks[3], stride=2)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(512 * Bottleneck.expansion, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(module, nn.BatchNorm2d):
                nn.init.uniform_(module.weight, 0.8, 1.2)
                nn.init.normal_(module.bias, std=0.1)
        self.set_statistics(torch.randn(4, 3, IMAGE, IMAGE))

    @torch.no_grad()
    def set_statistics(self, images):
        norms = [module for module in self.modules() if isinstance(module, nn.BatchNorm2d)]
        for norm in norms:
            norm.momentum = 1.0
        self(images)
        for norm in norms:
            norm.momentum = 0.1

    def stage(self, width, blocks, stride=1):
        size = width * Bottleneck.expansion
        downsample = None
        if stride != 1 or self.channels != size:
            downsample = nn.Sequential(
                nn.Conv2d(self.channels, size, 1, stride=stride, bias=False), nn.BatchNorm2d(size)
            )
        layers = [Bottleneck(self.channels, width, stride, downsample)]
        self.channels = size
        layers += [Bottleneck(size, width) for _ in range(1, blocks)]
        return nn.Sequential(*layers)

    def forward(self, images):
        x = self.maxpool(self.relu(self.bn1(self.conv1(images))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        x = torch.flatten(self.avgpool(x), 1)
        return self.fc(x)


def get_init_inputs():
    return []


def get_inputs():
    return [torch.randn(BATCH, 3, IMAGE, IMAGE)]


def get_workloads():
    pixels = {"normal": [0.0, 1.0]}
    return {
        "name": "classification",
        "inputs": [
            {"name": "images", "dtype": "float32", "shape": ["batch", 3, IMAGE, IMAGE], "values": pixels},
        ],
        "dims": {"batch": {"serve": [BATCH], "min": 1, "max": 8}},
    }
