package answers

import (
	"math/bits"
	"strconv"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// SavedAmounts is what both resources save, in millicores and bytes, indexed by recommender.Resource. Unlike other
// amounts it may be negative: an increase.
type SavedAmounts [2]recommender.Amount

// Plus returns the sum, saturated as AddSaved.
func (p SavedAmounts) Plus(other SavedAmounts) SavedAmounts {
	for r := range p {
		p[r] = AddSaved(p[r], other[r])
	}
	return p
}

// AddSaved adds amounts and saturates at ±recommender.MaxAmount.
func AddSaved(a, b recommender.Amount) recommender.Amount { return bound(bound(a) + bound(b)) }

func bound(a recommender.Amount) recommender.Amount {
	return max(-recommender.MaxAmount, min(recommender.MaxAmount, a))
}

// SavedOf returns what one request of a container saves over all replicas when it changes from one amount to another. A
// negative result is an increase. known is false if either amount is not set: a container without a request has no
// known footprint.
func SavedOf(from, to recommender.Amount, replicas int32) (saved recommender.Amount, known bool) {
	if from <= 0 || to <= 0 {
		return 0, false
	}
	return TimesReplicas(from-to, replicas), true
}

// TimesReplicas multiplies and saturates at ±recommender.MaxAmount: an object of the cluster may hold amounts that no
// machine has.
func TimesReplicas(difference recommender.Amount, replicas int32) recommender.Amount {
	if difference < 0 {
		return -TimesReplicas(-difference, replicas)
	}
	high, low := bits.Mul64(uint64(difference), uint64(max(replicas, 0)))
	if high > 0 || low > uint64(recommender.MaxAmount) {
		return recommender.MaxAmount
	}
	return recommender.Amount(low)
}

// notAllowed has the messages of requests that attune may only raise.
var notAllowed = [2]string{recommender.CPU: "cpu is lowered only with allowDecrease", recommender.Memory: "memory is lowered only with allowDecrease"}

// blockedBy returns why the target of a container is not applied to a resource: a reason and a message, both empty if it
// is applied. In addition to the stored holds, a request is only lowered with allowDecrease. The hold NotRunning is
// ignored: the target is for the next pods.
func blockedBy(holds []v1alpha1.Hold, settings *recommender.Settings, r recommender.Resource, from, to recommender.Amount) (reason, message string) {
	for i := range holds {
		if holds[i].Resource == r.String() && holds[i].Reason != string(recommender.NotRunning) {
			return holds[i].Reason, holds[i].Message
		}
	}
	if 0 < to && to < from && !settings.Of[r].AllowDecrease {
		return string(recommender.DecreaseNotAllowed), notAllowed[r]
	}
	return "", ""
}

// SavedByTarget returns what the targets of one container save over all replicas, compared with the requests now. A
// blocked resource saves nothing (blockedBy). It allocates nothing: the policy loop calls it for every container.
func SavedByTarget(t *v1alpha1.ContainerTarget, settings *recommender.Settings, now recommender.Size, replicas int32) (saved SavedAmounts) {
	target := podview.FromResources(t.Target)
	for _, r := range recommender.Resources {
		from, to := now[r].Request, target[r].Request
		if reason, _ := blockedBy(t.Holds, settings, r, from, to); reason == "" {
			saved[r], _ = SavedOf(from, to, replicas)
		}
	}
	return saved
}

// hoursPerMonth is the usual accounting month: 8,760 hours / 12.
const hoursPerMonth = 730

// MonthlyPrice returns the price of the saved amounts for a month of 730 hours; priced is false if no price is
// configured.
func MonthlyPrice(saved SavedAmounts, p policy.Pricing) (amount float64, priced bool) {
	const millicores, gib = 1000, 1 << 30
	if p.CPUPerCoreHour == 0 && p.MemoryPerGiBHour == 0 {
		return 0, false
	}
	return hoursPerMonth * (float64(saved[recommender.CPU])/millicores*p.CPUPerCoreHour + float64(saved[recommender.Memory])/gib*p.MemoryPerGiBHour), true
}

// FormatMoney formats an amount of money, with the currency in front.
func FormatMoney(amount float64, currency string) string {
	return currency + strconv.FormatFloat(amount, 'f', 2, 64)
}

// FormatSaved formats a saved amount as a quantity, which may be negative.
func FormatSaved(r recommender.Resource, saved recommender.Amount) string {
	if saved < 0 {
		return "-" + recommender.Format(r, -saved)
	}
	return recommender.Format(r, saved)
}
