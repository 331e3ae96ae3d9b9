package node_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"attune.io/attune/recommender"
	. "attune.io/attune/recommender/node"
)

// fullNode is 110 pods of two containers, of 40 workloads. short is the missing CPU.
func fullNode(seed uint64, short recommender.Amount) (Amounts, []Pod) {
	rng := rand.New(rand.NewPCG(seed, 1))
	pods := make([]Pod, 110)
	for i := range pods {
		pods[i] = Pod{
			Name: fmt.Sprintf("shop/web-%d-7c9f6d5b8-%05d", i%40, rng.IntN(100_000)), Group: fmt.Sprintf("shop/Deployment/web-%d", i%40),
			Ranking: Ranking(rng.IntN(3)), DaemonSet: i%20 == 0,
		}
		for j := range 2 {
			c := Container{Name: fmt.Sprintf("c%d", j), Max7d: recommender.Amount(rng.Int64N(1 << 30))}
			for r := range c.Of {
				base := recommender.Amount(50 + rng.Int64N(500))
				c.Of[r] = Demand{Base: base, Peak: base + recommender.Amount(rng.Int64N(1000))}
				c.Current[r], c.AtCreation[r] = c.Of[r].Peak, c.Of[r].Peak
			}
			pods[i].Containers = append(pods[i].Containers, c)
		}
	}
	need := Share(Amounts{plenty, plenty}, pods).Needed
	return Amounts{need[cpu] - short, need[memory]}, pods
}

func BenchmarkShareNode(b *testing.B) {
	for _, bench := range []struct {
		name  string
		short recommender.Amount
	}{{"fits", 0}, {"evicts", 20_000}} {
		b.Run(bench.name, func(b *testing.B) {
			available, pods := fullNode(1, bench.short)
			var sharer Sharer
			b.ReportAllocs()
			for b.Loop() {
				sharer.Share(available, pods)
			}
		})
	}
	b.Run("nodes=1000", func(b *testing.B) {
		var available [1000]Amounts
		var pods [1000][]Pod
		for i := range pods {
			available[i], pods[i] = fullNode(uint64(i), 0)
		}
		var sharer Sharer
		b.ReportAllocs()
		for b.Loop() {
			for i := range pods {
				sharer.Share(available[i], pods[i])
			}
		}
	})
}
