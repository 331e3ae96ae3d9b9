package policy

import (
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/tuning/targets"
)

// hoursPerMonth is the usual accounting month: 8,760 hours / 12.
const hoursPerMonth = 730

// saves reports whether a target counts as a saving: the settings and the autoscalers let it be applied,
// and both amounts are known.
func saves(settings policy.Settings, t v1alpha1.ContainerTarget, res recommender.Resource, now, target recommender.Amount) bool {
	lowered := target >= now || settings.Recommender.Of[res].AllowDecrease
	return now > 0 && target > 0 && lowered && !targets.HeldFor(t.Holds, res, resize.ReasonHPA) && !targets.HeldFor(t.Holds, res, resize.ReasonVPA)
}

// saved compares the requests of the templates with the targets, over all replicas, in millicores and
// bytes. A negative result is growth.
func saved(r report) (saved [2]recommender.Amount) {
	for i := range r.recommendations {
		w := r.matched.won[i]
		if skipped(w) {
			continue
		}
		for _, t := range r.recommendations[i].Spec.Containers {
			now, target := current(w, r.settings, t.Name), podview.FromResources(t.Target)
			for _, res := range recommender.Resources {
				if saves(r.settings, t, res, now[res].Request, target[res].Request) {
					saved[res] += (now[res].Request - target[res].Request) * recommender.Amount(w.Replicas)
				}
			}
		}
	}
	return saved
}

// savings returns what the targets would save, for the policy's status.
func savings(r report) *v1alpha1.Savings {
	saved := saved(r)
	return &v1alpha1.Savings{
		CPURequestReduction:     *resource.NewMilliQuantity(int64(saved[recommender.CPU]), resource.DecimalSI),
		MemoryRequestReduction:  *resource.NewQuantity(int64(saved[recommender.Memory]), resource.BinarySI),
		EstimatedMonthlySavings: monthly(saved, r.settings.Pricing),
	}
}

// monthly is the price of the saved amounts for a month, with the currency in front; empty: no price is
// configured.
func monthly(saved [2]recommender.Amount, p policy.Pricing) string {
	if p.CPUPerCoreHour == 0 && p.MemoryPerGiBHour == 0 {
		return ""
	}
	const gib = 1 << 30
	amount := hoursPerMonth * (float64(saved[recommender.CPU])/1000*p.CPUPerCoreHour + float64(saved[recommender.Memory])/gib*p.MemoryPerGiBHour)
	return p.Currency + strconv.FormatFloat(amount, 'f', 2, 64)
}

// skipped reports that an annotation keeps attune away from the workload, so that nothing is saved or
// recommended.
func skipped(w workload.Workload) bool {
	_, skipped := w.Skipped()
	return skipped
}

// current is what the workload's template asks for a container; zero where the container is gone or
// excluded.
func current(w workload.Workload, settings policy.Settings, container string) recommender.Size {
	for _, c := range targets.Sized(w.Template, settings) {
		if c.Name == container {
			return podview.ReadSpec(c.Resources)
		}
	}
	return recommender.Size{}
}
