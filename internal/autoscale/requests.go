package autoscale

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// RequestsDigest returns a digest of all that a proof reads of the pods (Fleet.Pods), whatever their order. 0: no pod runs.
func RequestsDigest(pods []*corev1.Pod) (sum uint64) {
	var text []byte
	for _, pod := range pods {
		if resize.Finished(pod) || pod.DeletionTimestamp != nil {
			continue
		}
		text = append(text[:0], pod.Name...)
		text = strconv.AppendBool(append(text, '='), podview.HasPodLevelResources(pod))
		for _, c := range podview.Resizable(pod) {
			text = append(append(text, ','), c.Name...)
			for _, r := range recommender.Resources {
				text = strconv.AppendInt(append(text, ' '), int64(podview.AmountIn(r, c.Resources.Requests)), 10)
			}
		}
		sum += podview.Hash(string(text))
	}
	return sum
}
