package podname_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/usage/podname"
)

func deployment(name string) podname.Workload {
	return podname.Workload{Kind: v1alpha1.KindDeployment, Name: name}
}

func statefulSet(name string) podname.Workload {
	return podname.Workload{Kind: v1alpha1.KindStatefulSet, Name: name}
}

func daemonSet(name string) podname.Workload {
	return podname.Workload{Kind: v1alpha1.KindDaemonSet, Name: name}
}

func replicaSet(name string) podname.Workload {
	return podname.Workload{Kind: v1alpha1.KindReplicaSet, Name: name}
}

func job(name string) podname.Workload {
	return podname.Workload{Kind: v1alpha1.KindJob, Name: name}
}

func cronJob(name string) podname.Workload {
	return podname.Workload{Kind: v1alpha1.KindCronJob, Name: name}
}

func TestOf(t *testing.T) {
	none := podname.Workload{}
	for _, test := range []struct {
		name      string
		workloads []podname.Workload
		pod       string
		want      podname.Workload
		match     podname.Match
	}{
		{"deployment", list(deployment("web")), "web-7d4f8c9b6-x2x5k", deployment("web"), podname.Found},
		{"deployment, shortest hash", list(deployment("web")), "web-7-x2x5k", deployment("web"), podname.Found},
		{"deployment, longest hash", list(deployment("web")), "web-7d4f8c9b6a-x2x5k", deployment("web"), podname.Found},
		{"deployment, hash of 11", list(deployment("web")), "web-7d4f8c9b6ab-x2x5k", none, podname.Unknown},
		{"deployment, suffix of 4", list(deployment("web")), "web-7d4f8c9b6-x2x5", none, podname.Unknown},
		{"deployment, suffix of 6", list(deployment("web")), "web-7d4f8c9b6-x2x5kk", none, podname.Unknown},
		{"deployment, no hash", list(deployment("web")), "web-x2x5k", none, podname.Unknown},
		{"deployment, empty hash", list(deployment("web")), "web--x2x5k", none, podname.Unknown},
		{"deployment, capital letters", list(deployment("web")), "web-7D4f8c9b6-x2x5k", none, podname.Unknown},
		{"deployment with dashes and dots", list(deployment("my-app.v2")), "my-app.v2-7d4f8c9b6-x2x5k", deployment("my-app.v2"), podname.Found},
		{"stateful set", list(statefulSet("db")), "db-0", statefulSet("db"), podname.Found},
		{"stateful set, large ordinal", list(statefulSet("db")), "db-1204", statefulSet("db"), podname.Found},
		{"stateful set, no ordinal", list(statefulSet("db")), "db-a", none, podname.Unknown},
		{"daemon set", list(daemonSet("agent")), "agent-x2x5k", daemonSet("agent"), podname.Found},
		{"replica set", list(replicaSet("rs")), "rs-x2x5k", replicaSet("rs"), podname.Found},
		{"job", list(job("load")), "load-x2x5k", job("load"), podname.Found},
		{"indexed job", list(job("load")), "load-12-x2x5k", job("load"), podname.Found},
		{"cron job", list(cronJob("nightly")), "nightly-29012345-x2x5k", cronJob("nightly"), podname.Found},
		{"indexed cron job", list(cronJob("nightly")), "nightly-29012345-3-x2x5k", cronJob("nightly"), podname.Found},
		{"cron job, not a minute", list(cronJob("nightly")), "nightly-manual-x2x5k", none, podname.Unknown},

		{"no prefix match", list(deployment("my-app")), "my-app-v2-7d4f8c9b6-x2x5k", none, podname.Unknown},
		{"longer deployment", list(deployment("my-app"), deployment("my-app-v2")), "my-app-v2-7d4f8c9b6-x2x5k", deployment("my-app-v2"), podname.Found},
		{"shorter deployment", list(deployment("my-app"), deployment("my-app-v2")), "my-app-7d4f8c9b6-x2x5k", deployment("my-app"), podname.Found},
		{"longest name first: what looks like a hash is a name", list(deployment("my-app"), daemonSet("my-app-v2")), "my-app-v2-x2x5k", daemonSet("my-app-v2"), podname.Found},
		{"and without that workload it is a hash", list(deployment("my-app")), "my-app-v2-x2x5k", deployment("my-app"), podname.Found},
		{"longest name first: indexed job", list(job("load"), job("load-1")), "load-1-x2x5k", job("load-1"), podname.Found},
		{"longest name first: cron job", list(cronJob("c"), job("c-29012345")), "c-29012345-x2x5k", job("c-29012345"), podname.Found},

		{"kinds of one name, told apart", list(deployment("x"), statefulSet("x")), "x-0", statefulSet("x"), podname.Found},
		{"kinds of one name, not told apart", list(daemonSet("x"), replicaSet("x")), "x-x2x5k", none, podname.Ambiguous},
		{"an ordinal of 5 digits", list(statefulSet("x"), daemonSet("x")), "x-12345", none, podname.Ambiguous},
		{"an ordinal of 4 digits", list(statefulSet("x"), daemonSet("x")), "x-1234", statefulSet("x"), podname.Found},
		{"a hash of digits", list(deployment("x"), cronJob("x")), "x-29012345-x2x5k", none, podname.Ambiguous},
		{"a hash with a letter", list(deployment("x"), cronJob("x")), "x-2901234f-x2x5k", deployment("x"), podname.Found},
		{"the same workload twice", list(deployment("x"), deployment("x")), "x-7d4f8c9b6-x2x5k", deployment("x"), podname.Found},

		{"empty", list(deployment("x")), "", none, podname.Unknown},
		{"dash", list(deployment("x")), "-", none, podname.Unknown},
		{"dashes", list(deployment("x")), "----", none, podname.Unknown},
		{"an empty workload name", list(deployment("")), "-abc-x2x5k", none, podname.Unknown},
		{"bare pod", list(deployment("x")), "x", none, podname.Unknown},
		{"no workloads", nil, "x-7d4f8c9b6-x2x5k", none, podname.Unknown},
		{"a kind that is not known", list(podname.Workload{Kind: "Rollout", Name: "x"}), "x-7d4f8c9b6-x2x5k", none, podname.Unknown},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, match := podname.NewIndex(test.workloads).Of(test.pod)
			assert.Equal(t, test.match, match)
			assert.Equal(t, test.want, got)
		})
	}
}

// generated is what the API server makes of a generateName.
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
			owner podname.Workload
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
				got, match := podname.NewIndex(list(test.owner)).Of(test.pod)
				assert.Equal(t, podname.Found, match, test.pod)
				assert.Equal(t, test.owner, got)
			})
		}
	}
}

func TestNamesThatWereCutAreAmbiguous(t *testing.T) {
	long := strings.Repeat("a", 60)
	index := podname.NewIndex(list(daemonSet(long+"1"), daemonSet(long+"2"), statefulSet(long+"3")))
	_, match := index.Of(generated(long + "1-"))
	assert.Equal(t, podname.Ambiguous, match)

	_, match = podname.NewIndex(list(statefulSet(long))).Of(generated(long + "-"))
	assert.Equal(t, podname.Unknown, match, "a StatefulSet's pods have no random suffix")
}

func TestOfDoesNotAllocate(t *testing.T) {
	index := podname.NewIndex(list(deployment("my-app"), daemonSet("agent"), cronJob("nightly")))
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
	index := podname.NewIndex(list(deployment("x"), statefulSet("x"), daemonSet("x-y"), job("x"), cronJob("x"), deployment(strings.Repeat("x", 58))))
	f.Fuzz(func(t *testing.T, pod string) {
		owner, match := index.Of(pod)
		assert.Equal(t, match == podname.Found, owner != podname.Workload{})
		if match == podname.Found {
			assert.True(t, strings.HasPrefix(pod, owner.Name))
		}
	})
}

func BenchmarkOf(b *testing.B) {
	for _, size := range []int{10, 10_000} {
		b.Run(fmt.Sprint(size, " workloads"), func(b *testing.B) {
			var workloads []podname.Workload
			for i := range size {
				workloads = append(workloads, deployment(fmt.Sprint("app-", i)))
			}
			index := podname.NewIndex(workloads)
			b.ReportAllocs()
			for b.Loop() {
				index.Of("app-7-7d4f8c9b6-x2x5k")
			}
		})
	}
}

func list(workloads ...podname.Workload) []podname.Workload { return workloads }
