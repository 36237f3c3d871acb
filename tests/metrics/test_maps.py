import pytest
import torch

from fourierscale.metrics.maps import MaskScores, boundary_pixels


def _slow_boundary(mask, kind):
    found = set()
    height, width = mask.shape
    for i in range(height):
        for j in range(width):
            for a, b in ((i - 1, j), (i + 1, j), (i, j - 1), (i, j + 1)):
                if 0 <= a < height and 0 <= b < width and mask[i, j] == kind != mask[a, b] >= 0:
                    found.add((i, j))
    return found


def _slow_scores(found, true, classes, reach):
    overlap, union, near = [0] * classes, [0] * classes, [0, 0, 0, 0]
    for ours, theirs in zip(found, true, strict=True):
        ours = torch.where(theirs >= 0, ours, -1)
        for kind in range(classes):
            a, b = ours == kind, theirs == kind
            overlap[kind] += int((a & b).sum())
            union[kind] += int((a | b).sum())
            lines = _slow_boundary(ours, kind), _slow_boundary(theirs, kind)
            for place in (0, 1):
                other = lines[1 - place]
                near[2 * place + 1] += len(lines[place])
                near[2 * place] += sum(
                    any(max(abs(i - k), abs(j - m)) <= reach for k, m in other) for i, j in lines[place]
                )
    precision, recall = near[0] / near[1], near[2] / near[3]
    return [a / b for a, b in zip(overlap, union, strict=True)], 2 * precision * recall / (precision + recall)


@pytest.mark.parametrize(("side", "reach"), [(9, 1), (130, 2)])
def test_scores_are_their_definitions(side, reach):
    generator = torch.Generator().manual_seed(0)
    coarse = torch.randint(0, 3, (2, 2, 5, 5), generator=generator)
    size = (2, side, side if side < 20 else 20)
    masks = [torch.nn.functional.interpolate(part[:, None].float(), size[1:])[:, 0].long() for part in coarse]
    found, true = masks
    true[0, 0, :3] = -1
    metric = MaskScores(3)
    metric.update(found[:1], true[:1])
    metric.update(found[1:], true[1:])
    scores = metric.compute()
    per_class, boundary = _slow_scores(found, true, 3, max(1, round(0.01 * (size[1] ** 2 + size[2] ** 2) ** 0.5)))
    assert scores["per_class"].tolist() == pytest.approx(per_class)
    assert float(scores["iou"]) == pytest.approx(sum(per_class) / 3)
    assert float(scores["boundary"]) == pytest.approx(boundary)
    right = (found == true)[true >= 0].float().mean()
    assert float(scores["pixels"]) == pytest.approx(float(right))


def test_perfect_masks_have_perfect_scores_and_classes_that_are_nowhere_do_not_count():
    mask = torch.zeros(1, 8, 8, dtype=torch.long)
    mask[:, 2:5] = 2
    metric = MaskScores(4)
    metric.update(mask, mask)
    scores = metric.compute()
    assert (float(scores["iou"]), float(scores["boundary"]), float(scores["pixels"])) == (1, 1, 1)
    assert scores["per_class"].isnan().tolist() == [False, True, False, True]
    metric.reset()
    metric.update(mask * 0, mask * 0)
    assert float(metric.compute()["boundary"]) == 1  # no boundary, and none was found
    metric.update(mask * 0, mask)
    assert float(metric.compute()["boundary"]) == 0


def test_boundaries_do_not_run_along_what_is_ignored():
    mask = torch.tensor([[[0, 0, -1, 1], [0, 0, -1, 1]]])
    assert not boundary_pixels(mask, 2).any()
