package autoscale

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/replicas"
	"attune.io/attune/resize"
)

// ProofOf returns by which setting of cpu.hpa or memory.hpa a request changes although an HPA scales on it.
func ProofOf(k *v1alpha1.KeptRequest) string { return string(cmp.Or(k.By, v1alpha1.HPAKeep)) }

// SentenceOf returns a sentence about a stored range: which HPAs keep the number of replicas with which requests, by what,
// and until when the range is valid.
func SentenceOf(k *v1alpha1.KeptRequest) string {
	r := recommender.ResourceOf(k.Resource)
	requests := "of at least " + recommender.Format(r, podview.AmountOf(r, k.Least))
	if k.Most != nil {
		requests = fmt.Sprintf("from %s to %s", recommender.Format(r, podview.AmountOf(r, k.Least)), recommender.Format(r, podview.AmountOf(r, *k.Most)))
	}
	if k.By == v1alpha1.HPARetarget {
		return fmt.Sprintf("%s keeps the number of replicas with a request %s, as attune changes its target together with the request (originally %d %%); history since %s, valid until %s",
			named(k.HPAs), requests, k.OriginalPercent, minute(k.Since.Time), minute(k.ValidUntil.Time))
	}
	return fmt.Sprintf("%s keeps the number of replicas with a request %s; history since %s, valid until %s",
		named(k.HPAs), requests, minute(k.Since.Time), minute(k.ValidUntil.Time))
}

// Granted returns by which proof the request of a container changes although an HPA scales on it, with the stored range.
// An empty proof: no HPA scales on it, or it is blocked. ProofNone: it is blocked because of an HPA.
func Granted(t *v1alpha1.ContainerTarget, r recommender.Resource) (proof string, kept *v1alpha1.KeptRequest) {
	if resize.HeldFor(t.Holds, r, resize.ReasonHPA) {
		return ProofNone, nil
	}
	for i := range t.Kept {
		if t.Kept[i].Resource == r.String() && !resize.HeldFor(t.Holds, r, resize.ReasonVPA) {
			return ProofOf(&t.Kept[i]), &t.Kept[i]
		}
	}
	return "", nil
}

// ProofNone is in place of a proof where an HPA blocks a request.
const ProofNone = "None"

// Scale is how an HPA scales on a request.
type Scale struct {
	Binding
	replicas.Scaler
	// Why is the reason why it is not known how it scales; empty: it is.
	Why string
}

// Scales returns how the HPAs scale on requests, by the names of the HPAs.
func (h Holds) Scales() []Scale {
	return podview.Map(h.bindings, func(b Binding) Scale {
		scaler, why := h.scaler(b)
		return Scale{b, scaler, why}
	})
}

// MeanRequests returns the mean requests of running pods by which an HPA divides, by container, and why one is not known;
// empty: all are. An empty container stands for the whole pod.
func MeanRequests(pods []*corev1.Pod, container string, r recommender.Resource) (map[string]float64, string) {
	return (&Fleet{Pods: pods}).present(container, r)
}
