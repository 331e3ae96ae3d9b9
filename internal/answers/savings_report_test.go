package answers

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/recommender"
)

// amounts are the figures of a row, parsed from its text.
type amounts struct {
	cpu, memory int64
	// cents has amounts by currency.
	cents map[string]int64
}

func (a *amounts) add(t *testing.T, s Saved) {
	t.Helper()
	cpu, memory := resource.MustParse(s.CPU), resource.MustParse(s.Memory)
	a.cpu += cpu.MilliValue()
	a.memory += memory.Value()
	for _, m := range s.Monthly {
		units, err := strconv.ParseInt(strings.Replace(m.Amount, ".", "", 1), 10, 64)
		require.NoError(t, err)
		if a.cents == nil {
			a.cents = map[string]int64{}
		}
		a.cents[m.Currency] += units
	}
}

func of(t *testing.T, s Saved) (a amounts) {
	t.Helper()
	a.add(t, s)
	return a
}

// The shown figures of workloads add up to the shown figures of their namespace and of the total.
func TestSumsAgreeAtEveryLevel(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	prices := []policy.Pricing{{}, {CPUPerCoreHour: 0.0316, MemoryPerGiBHour: 0.0042, Currency: "$"}, {CPUPerCoreHour: 0.0277, Currency: "EUR "}}
	amount := func() recommender.Amount { return recommender.Amount(random.Int64N(1<<34) - 1<<33) }
	for range 300 {
		var entries []SavingsEntry
		for i := range random.IntN(30) {
			namespace := random.IntN(4)
			e := SavingsEntry{
				View: View{
					Recommendation: &v1alpha1.AttuneRecommendation{
						ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprint("ns-", namespace)},
						Spec:       v1alpha1.AttuneRecommendationSpec{Workload: v1alpha1.WorkloadRef{Kind: v1alpha1.KindDeployment, Name: fmt.Sprint("w-", i)}},
					},
					Settings: &policy.Settings{Pricing: prices[namespace%len(prices)]},
				},
				Figures: SavingsFigures{Saved: SavedAmounts{amount() >> 16, amount()}, Available: SavedAmounts{amount() >> 16, amount()}},
			}
			if random.IntN(3) == 0 {
				e.Figures.NotCounted = []NotCounted{{Reason: ReasonSkipped}, {Container: "app", Resource: "cpu", Reason: "HPA"}}[:1+random.IntN(2)]
			}
			entries = append(entries, e)
		}
		report := NewSavingsReport(entries, true)

		var saved, available amounts
		byNamespace := map[string]*[2]amounts{}
		var left NotCountedSum
		for _, w := range report.Workloads {
			saved.add(t, *w.Saved)
			available.add(t, w.Available)
			if byNamespace[w.Namespace] == nil {
				byNamespace[w.Namespace] = &[2]amounts{}
			}
			byNamespace[w.Namespace][0].add(t, *w.Saved)
			byNamespace[w.Namespace][1].add(t, w.Available)
		}
		for _, n := range report.Namespaces {
			assert.Equal(t, *byNamespace[n.Namespace], [2]amounts{of(t, *n.Saved), of(t, n.Available)}, n.Namespace)
			left.SkippedWorkloads += n.NotCounted.SkippedWorkloads
			left.BlockedResources += n.NotCounted.BlockedResources
		}
		require.Len(t, report.Namespaces, len(byNamespace))
		assert.Equal(t, [2]amounts{saved, available}, [2]amounts{of(t, *report.Total.Saved), of(t, report.Total.Available)})
		assert.Equal(t, left, report.Total.NotCounted)
		assert.Equal(t, len(entries), report.Total.Workloads)
	}
}

// With any amounts and prices, the money of a saving is positive and the money of an increase negative.
func TestMoneyStaysInBounds(t *testing.T) {
	var saved, grown tally
	for range 3000 {
		saved.add(SavedAmounts{recommender.MaxAmount, 8 << 50}, policy.Pricing{CPUPerCoreHour: 1e6, MemoryPerGiBHour: 1e6, Currency: "$"})
		grown.add(SavedAmounts{-recommender.MaxAmount, -8 << 50}, policy.Pricing{CPUPerCoreHour: 1e6, MemoryPerGiBHour: 1e6, Currency: "$"})
	}
	assert.Equal(t, []Money{{"$", "90071992547409.92"}}, saved.saved().Monthly)
	assert.Equal(t, []Money{{"$", "-90071992547409.92"}}, grown.saved().Monthly)
}
