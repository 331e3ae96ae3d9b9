package csvfile

import (
	"regexp"
	"strings"

	"attune.io/attune/recommender/backtest"
)

// Pool merges series, such as the replicas of one workload, whose names match the pattern and have the same text in its
// groups (without groups: in the match). That text names the merged series, which has the highest sample of each time.
// Their times are rounded up to multiples of the first series' usual distance. It is false if no name matches.
func Pool(all []backtest.Series, pattern *regexp.Regexp) (pooled []backtest.Series, matches bool) {
	places := map[string]int{}
	var steps []int64
	for _, s := range all {
		found := pattern.FindStringSubmatch(s.ID)
		if found != nil {
			matches = true
			s.ID = strings.Join(found[min(1, len(found)-1):], "")
		}
		place, known := places[s.ID]
		if !known {
			places[s.ID] = len(pooled)
			pooled, steps = append(pooled, s), append(steps, backtest.Step(s.Samples).Milliseconds())
			continue
		}
		// Aligning the merged part again changes nothing.
		of := &pooled[place]
		of.Samples = append(of.Samples, s.Samples...)
		for i := range of.Samples {
			at := &of.Samples[i].At
			*at = (*at + steps[place] - 1) / steps[place] * steps[place]
		}
		of.Samples = new(rows).inOrder(of.Samples)
	}
	return pooled, matches
}

// podOf matches the names of series that contain the name of a pod of a Deployment, DaemonSet or StatefulSet, also in
// the labels of a Prometheus series. Random suffixes have no vowels.
var podOf = regexp.MustCompile(`^(.*?[a-z0-9])-(?:[a-z0-9]{1,10}-[a-z0-9]{5}|[bcdfghjklmnpqrstvwxz2456789]{5}|[0-9]+)(["/].*)?$`)

// leastPods is the number of similar series that are probably replicas.
const leastPods = 4

// Replicas returns the first workload of which several series seem to be pods, their number, and the pattern that pools
// them; 0 if there is none.
func Replicas(names []string) (of, pattern string, pods int) {
	counts := map[string]int{}
	for _, name := range names {
		if found := podOf.FindStringSubmatch(name); found != nil {
			counts[found[1]+found[2]]++
		}
	}
	for _, name := range names {
		if found := podOf.FindStringSubmatch(name); found != nil && counts[found[1]+found[2]] >= leastPods {
			end := "/"
			if strings.HasPrefix(found[2], `"`) {
				end = `"`
			}
			return found[1] + found[2], "^(" + regexp.QuoteMeta(found[1]) + ")-[^" + end + "]*(.*)$", counts[found[1]+found[2]]
		}
	}
	return "", "", 0
}
