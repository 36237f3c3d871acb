import pytest
import torch

from fourierscale.models import create_model, transfer_weights

SMALL = {"widths": [4, 6], "hidden": 8, "head": "temperature"}


def test_everything_fits_into_the_same_model() -> None:
    source, model = (create_model("scalenet-tiny", **SMALL).eval() for _ in range(2))
    x = torch.rand(2, 1, 28, 28)
    assert not torch.equal(model(x), source(x))
    assert transfer_weights(model, source)[1] == []
    assert torch.equal(model(x), source(x))


def test_other_classes_leave_the_last_layer_alone() -> None:
    source, model = create_model("scalenet-tiny", **SMALL), create_model("scalenet-tiny", **SMALL, classes=3)
    before = model.head.outer[2].weight.clone()
    copied, left = transfer_weights(model, source)
    assert left == ["head.outer.2.weight", "head.outer.2.bias"]
    assert torch.equal(model.head.outer[2].weight, before)
    assert "net.blocks.0.0.weight" in copied


def test_levels_take_what_the_nearest_level_learned() -> None:
    source = create_model("scalenet-tiny", **SMALL, resolutions=[9, 17, 25], pool=1)  # bands 4, 8, 12
    model = create_model("scalenet-tiny", **SMALL, resolutions=[17, 33, 41, 49], pool=1)  # 8, 16, 20, 24
    with torch.no_grad():
        activation = source.net.blocks[0][1]
        activation.weight.copy_(torch.arange(3.0)[:, None].expand_as(activation.weight))
        source.head.steps.copy_(torch.arange(3.0))
    assert transfer_weights(model, source)[1] == []
    assert model.net.blocks[0][1].weight[:, 0].tolist() == [0, 1, 2, 2]
    assert model.head.steps.tolist() == [0, 1, 2, 2]


def test_another_kind_of_model_shares_nothing() -> None:
    assert transfer_weights(create_model("cnn-small"), create_model("scalenet-tiny"))[0] == []


@pytest.mark.parametrize("levels", [[5, 9], [5, 9, 13]])
def test_a_model_with_other_levels_stays_exact(levels: list[int]) -> None:
    source, model = create_model("scalenet-tiny", **SMALL), create_model("scalenet-tiny", **SMALL, resolutions=levels)
    transfer_weights(model, source)
    from fourierscale import downscale

    model = model.double().eval()
    x = torch.rand(1, 1, levels[-1], levels[-1], dtype=torch.float64)
    torch.testing.assert_close(model(downscale(x, 5))[:, -1], model(x)[:, 0])
