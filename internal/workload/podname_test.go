package workload_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
)

func deployment(name string) workload.KindName {
	return workload.KindName{Kind: v1alpha1.KindDeployment, Name: name}
}

func statefulSet(name string) workload.KindName {
	return workload.KindName{Kind: v1alpha1.KindStatefulSet, Name: name}
}

func daemonSet(name string) workload.KindName {
	return workload.KindName{Kind: v1alpha1.KindDaemonSet, Name: name}
}

func replicaSet(name string) workload.KindName {
	return workload.KindName{Kind: v1alpha1.KindReplicaSet, Name: name}
}

func job(name string) workload.KindName {
	return workload.KindName{Kind: v1alpha1.KindJob, Name: name}
}

func cloneSet(name string) workload.KindName {
	return workload.KindName{Kind: "CloneSet.apps.kruise.io", Name: name}
}

func database(name string) workload.KindName {
	return workload.KindName{Kind: "Database.example.org", Name: name}
}

func rollout(name string) workload.KindName { return workload.KindName{Kind: "Rollout", Name: name} }

func cronJob(name string) workload.KindName {
	return workload.KindName{Kind: v1alpha1.KindCronJob, Name: name}
}

func TestOf(t *testing.T) {
	none := workload.KindName{}
	for _, test := range []struct {
		name      string
		workloads []workload.KindName
		pod       string
		want      workload.KindName
		match     workload.Match
	}{
		{"deployment", list(deployment("web")), "web-7d4f8c9b6-x2x5k", deployment("web"), workload.MatchFound},
		{"deployment, shortest hash", list(deployment("web")), "web-7-x2x5k", deployment("web"), workload.MatchFound},
		{"deployment, longest hash", list(deployment("web")), "web-7d4f8c9b6a-x2x5k", deployment("web"), workload.MatchFound},
		{"deployment, hash of 11", list(deployment("web")), "web-7d4f8c9b6ab-x2x5k", none, workload.MatchNone},
		{"deployment, suffix of 4", list(deployment("web")), "web-7d4f8c9b6-x2x5", none, workload.MatchNone},
		{"deployment, suffix of 6", list(deployment("web")), "web-7d4f8c9b6-x2x5kk", none, workload.MatchNone},
		{"deployment, no hash", list(deployment("web")), "web-x2x5k", none, workload.MatchNone},
		{"deployment, empty hash", list(deployment("web")), "web--x2x5k", none, workload.MatchNone},
		{"deployment, capital letters", list(deployment("web")), "web-7D4f8c9b6-x2x5k", none, workload.MatchNone},
		{"deployment with dashes and dots", list(deployment("my-app.v2")), "my-app.v2-7d4f8c9b6-x2x5k", deployment("my-app.v2"), workload.MatchFound},
		{"stateful set", list(statefulSet("db")), "db-0", statefulSet("db"), workload.MatchFound},
		{"a kind that is added", list(cloneSet("web")), "web-x2x5k", cloneSet("web"), workload.MatchFound},
		{"a kind that is added, twice in the list", list(cloneSet("web"), cloneSet("web")), "web-x2x5k", cloneSet("web"), workload.MatchFound},
		{"a kind that is added, with numbers", list(database("db")), "db-3", database("db"), workload.MatchFound},
		{"a kind that is added, in another way", list(database("db")), "db-7d4f8c9b6-x2x5k", none, workload.MatchAmbiguous},
		{"two kinds that are added", list(cloneSet("web"), database("web")), "web-x2x5k", none, workload.MatchAmbiguous},
		{"a kind that is added and a replica set", list(cloneSet("web"), replicaSet("web")), "web-x2x5k", none, workload.MatchAmbiguous},
		{"a kind that is added and a deployment", list(deployment("web"), cloneSet("web")), "web-7d4f8c9b6-x2x5k", none, workload.MatchAmbiguous},
		{"a kind that is added, shorter than a deployment", list(deployment("web-shop"), cloneSet("web")), "web-shop-7d4f8c9b6-x2x5k", deployment("web-shop"), workload.MatchFound},
		{"no kind", list(workload.KindName{Kind: "Pod", Name: "web"}), "web-x2x5k", none, workload.MatchNone},
		{"stateful set, large ordinal", list(statefulSet("db")), "db-1204", statefulSet("db"), workload.MatchFound},
		{"stateful set, no ordinal", list(statefulSet("db")), "db-a", none, workload.MatchNone},
		{"daemon set", list(daemonSet("agent")), "agent-x2x5k", daemonSet("agent"), workload.MatchFound},
		{"replica set", list(replicaSet("rs")), "rs-x2x5k", replicaSet("rs"), workload.MatchFound},
		{"job", list(job("load")), "load-x2x5k", job("load"), workload.MatchFound},
		{"indexed job", list(job("load")), "load-12-x2x5k", job("load"), workload.MatchFound},
		{"cron job", list(cronJob("nightly")), "nightly-29012345-x2x5k", cronJob("nightly"), workload.MatchFound},
		{"indexed cron job", list(cronJob("nightly")), "nightly-29012345-3-x2x5k", cronJob("nightly"), workload.MatchFound},
		{"cron job, not a minute", list(cronJob("nightly")), "nightly-manual-x2x5k", none, workload.MatchNone},

		{"no prefix match", list(deployment("my-app")), "my-app-v2-7d4f8c9b6-x2x5k", none, workload.MatchNone},
		{"longer deployment", list(deployment("my-app"), deployment("my-app-v2")), "my-app-v2-7d4f8c9b6-x2x5k", deployment("my-app-v2"), workload.MatchFound},
		{"shorter deployment", list(deployment("my-app"), deployment("my-app-v2")), "my-app-7d4f8c9b6-x2x5k", deployment("my-app"), workload.MatchFound},
		{"longest name first: what looks like a hash is a name", list(deployment("my-app"), daemonSet("my-app-v2")), "my-app-v2-x2x5k", daemonSet("my-app-v2"), workload.MatchFound},
		{"and without that workload it is a hash", list(deployment("my-app")), "my-app-v2-x2x5k", deployment("my-app"), workload.MatchFound},
		{"longest name first: indexed job", list(job("load"), job("load-1")), "load-1-x2x5k", job("load-1"), workload.MatchFound},
		{"longest name first: cron job", list(cronJob("c"), job("c-29012345")), "c-29012345-x2x5k", job("c-29012345"), workload.MatchFound},

		{"kinds of one name, told apart", list(deployment("x"), statefulSet("x")), "x-0", statefulSet("x"), workload.MatchFound},
		{"kinds of one name, not told apart", list(daemonSet("x"), replicaSet("x")), "x-x2x5k", none, workload.MatchAmbiguous},
		{"an ordinal of 5 digits", list(statefulSet("x"), daemonSet("x")), "x-12345", none, workload.MatchAmbiguous},
		{"an ordinal of 4 digits", list(statefulSet("x"), daemonSet("x")), "x-1234", statefulSet("x"), workload.MatchFound},
		{"a hash of digits", list(deployment("x"), cronJob("x")), "x-29012345-x2x5k", none, workload.MatchAmbiguous},
		{"a hash with a letter", list(deployment("x"), cronJob("x")), "x-2901234f-x2x5k", deployment("x"), workload.MatchFound},
		{"the same workload twice", list(deployment("x"), deployment("x")), "x-7d4f8c9b6-x2x5k", deployment("x"), workload.MatchFound},

		{"rollout", list(rollout("x")), "x-7d4f8c9b6-x2x5k", rollout("x"), workload.MatchFound},
		{"a rollout beside its deployment", list(rollout("x"), deployment("x")), "x-7d4f8c9b6-x2x5k", none, workload.MatchAmbiguous},
		{"empty", list(deployment("x")), "", none, workload.MatchNone},
		{"dash", list(deployment("x")), "-", none, workload.MatchNone},
		{"dashes", list(deployment("x")), "----", none, workload.MatchNone},
		{"an empty workload name", list(deployment("")), "-abc-x2x5k", none, workload.MatchNone},
		{"bare pod", list(deployment("x")), "x", none, workload.MatchNone},
		{"no workloads", nil, "x-7d4f8c9b6-x2x5k", none, workload.MatchNone},
		{"a kind that is not known", list(workload.KindName{Kind: "CloneSet", Name: "x"}), "x-7d4f8c9b6-x2x5k", none, workload.MatchNone},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, match := workload.NewPodIndex(test.workloads).Of(test.pod)
			assert.Equal(t, test.match, match)
			assert.Equal(t, test.want, got)
		})
	}
}

// generated returns the name that the API server generates from a generateName.
func generated(base string) string {
	if len(base) > 58 {
		base = base[:58]
	}
	return base + "x2x5k"
}

func TestNamesThatWereCutToFit(t *testing.T) {
	for length := 40; length <= 80; length++ {
		name := strings.Repeat("abcdefghi-", 10)[:length-1] + "z"
		for _, test := range []struct {
			owner workload.KindName
			pod   string
		}{
			{deployment(name), generated(name + "-7d4f8c9b6-")},
			{deployment(name), generated(name + "-7d4f8c9b6b-")},
			{daemonSet(name), generated(name + "-")},
			{replicaSet(name), generated(name + "-")},
			{job(name), generated(name + "-")},
			{statefulSet(name), name + "-12"},
		} {
			t.Run(fmt.Sprintf("%s of %d", test.owner.Kind, length), func(t *testing.T) {
				got, match := workload.NewPodIndex(list(test.owner)).Of(test.pod)
				assert.Equal(t, workload.MatchFound, match, test.pod)
				assert.Equal(t, test.owner, got)
			})
		}
	}
}

func TestNamesThatWereCutAreAmbiguous(t *testing.T) {
	long := strings.Repeat("a", 60)
	index := workload.NewPodIndex(list(daemonSet(long+"1"), daemonSet(long+"2"), statefulSet(long+"3")))
	_, match := index.Of(generated(long + "1-"))
	assert.Equal(t, workload.MatchAmbiguous, match)

	_, match = workload.NewPodIndex(list(statefulSet(long))).Of(generated(long + "-"))
	assert.Equal(t, workload.MatchNone, match, "a StatefulSet's pods have no random suffix")
}

func TestOfDoesNotAllocate(t *testing.T) {
	index := workload.NewPodIndex(list(deployment("my-app"), daemonSet("agent"), cronJob("nightly")))
	pods := []string{"my-app-7d4f8c9b6-x2x5k", "agent-x2x5k", "nightly-29012345-3-x2x5k", "nobody-0"}
	allocations := testing.AllocsPerRun(100, func() {
		for _, pod := range pods {
			index.Of(pod)
		}
	})
	assert.Zero(t, allocations)
}

func FuzzOf(f *testing.F) {
	for _, seed := range []string{"x-7d4f8c9b6-x2x5k", "x-0", "x-29012345-3-x2x5k", "--", strings.Repeat("x", 63)} {
		f.Add(seed)
	}
	index := workload.NewPodIndex(list(deployment("x"), statefulSet("x"), daemonSet("x-y"), job("x"), cronJob("x"), deployment(strings.Repeat("x", 58))))
	f.Fuzz(func(t *testing.T, pod string) {
		owner, match := index.Of(pod)
		assert.Equal(t, match == workload.MatchFound, owner != workload.KindName{})
		if match == workload.MatchFound {
			assert.True(t, strings.HasPrefix(pod, owner.Name))
		}
	})
}

func BenchmarkOf(b *testing.B) {
	for _, size := range []int{10, 10_000} {
		b.Run(fmt.Sprint(size, " workloads"), func(b *testing.B) {
			var workloads []workload.KindName
			for i := range size {
				workloads = append(workloads, deployment(fmt.Sprint("app-", i)))
			}
			index := workload.NewPodIndex(workloads)
			b.ReportAllocs()
			for b.Loop() {
				index.Of("app-7-7d4f8c9b6-x2x5k")
			}
		})
	}
}

func list(workloads ...workload.KindName) []workload.KindName { return workloads }
