package answers

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// Granted is a request that attune changes although a HorizontalPodAutoscaler scales on it.
type Granted struct {
	// Workload is KIND/NAME; empty where the answer is about one workload.
	Workload string `json:"workload,omitempty"`
	// Container and Resource of the request.
	Container string `json:"container"`
	Resource  string `json:"resource"`
	// Proof is the setting that grants it, such as Keep.
	Proof string `json:"proof"`
	// HPAs are the names of the HorizontalPodAutoscalers.
	HPAs []string `json:"hpas"`
	// Least and Most are the bounds of the request; Most is null without an upper bound.
	Least string  `json:"least"`
	Most  *string `json:"most"`
	// Since is the beginning of the history behind the range. ValidUntil is when the range is void unless it is renewed.
	Since      metav1.Time `json:"since"`
	ValidUntil metav1.Time `json:"validUntil"`
	// Message says the same in one sentence.
	Message string `json:"message"`
}

// GrantedTo returns the granted requests of a container, CPU first.
func GrantedTo(t *v1alpha1.ContainerTarget) (all []Granted) {
	for _, r := range recommender.Resources {
		proof, kept := autoscale.Granted(t, r)
		if kept == nil {
			continue
		}
		g := Granted{
			Container: t.Name, Resource: kept.Resource, Proof: proof, HPAs: kept.HPAs, Message: autoscale.SentenceOf(kept),
			Least: recommender.Format(r, podview.AmountOf(r, kept.Least)), Since: kept.Since, ValidUntil: kept.ValidUntil,
		}
		if kept.Most != nil {
			g.Most = new(recommender.Format(r, podview.AmountOf(r, *kept.Most)))
		}
		all = append(all, g)
	}
	return all
}

// GrantedOfWorkload returns the granted requests of a workload, in the order of its containers.
func GrantedOfWorkload(rec *v1alpha1.AttuneRecommendation) (all []Granted) {
	name := workload.IdentityOf(rec).String()
	for i := range rec.Spec.Containers {
		for _, g := range GrantedTo(&rec.Spec.Containers[i]) {
			g.Workload = name
			all = append(all, g)
		}
	}
	return all
}

// String returns the proof and the sentence.
func (g Granted) String() string { return g.Proof + ": " + g.Message }
