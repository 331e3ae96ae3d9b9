package prometheus

import (
	"context"
	"fmt"
	"sync"
	"time"

	"attune.io/attune/usage"
)

const (
	// clusterLabel tells the clusters apart that one server knows, by the convention of Thanos, Mimir and their charts.
	clusterLabel = "cluster"
	// clustersEvery is how often a server is asked whether it knows several.
	clustersEvery = time.Hour
)

// clusters detects that a server knows pods of one name in several clusters. Their usage is taken for one pod's
// then, and the highest counts. Every answer has a warning until it is so no more. mutex guards asked and warning.
type clusters struct {
	// told is true where the operator or the policy names the cluster that is meant. Then nothing is asked.
	told  bool
	mutex sync.Mutex
	// asked is when the server was asked last, by the end of the query.
	asked   time.Time
	warning string
}

// SeveralClusters is the PromQL expression of a container whose series come from more than one cluster, with how many
// they are.
func (s Scope) SeveralClusters(q usage.Query) string {
	each := fmt.Sprintf("count by (namespace,pod,container,%s) (container_memory_working_set_bytes{%s,%s!=\"\"})", clusterLabel, s.selector(q), clusterLabel)
	return fmt.Sprintf("topk(1, count by (namespace,pod,container) (%s) > 1)", each)
}

// warn adds a warning to the report where the server knows several clusters. It asks the server once in
// clustersEvery. A failure of that query is not reported, since the answer that the caller asked for is there.
func (c *clusters) warn(ctx context.Context, client *Client, query usage.Query, report *usage.Report) {
	if c.told || len(query.Namespaces) == 0 {
		return
	}
	c.mutex.Lock()
	due := query.End.Sub(c.asked) >= clustersEvery || query.End.Before(c.asked.Add(-clustersEvery))
	if due {
		c.asked = query.End
	}
	warning := c.warning
	c.mutex.Unlock()
	if due {
		warning = c.ask(ctx, client, query, warning)
	}
	if warning != "" {
		report.Warn(warning)
	}
}

// ask asks the server for a pod that is in several clusters, and returns the warning; empty where there is none.
// After a failure it returns the warning before.
func (c *clusters) ask(ctx context.Context, client *Client, query usage.Query, before string) string {
	asked := query.Asked()
	var found string
	_, err := client.askRange(ctx, client.scope.SeveralClusters(query), once(query.End), func(e Element) {
		if of := e.Labels; found == "" && len(e.Samples) > 0 && asked.Namespace(of.Namespace) {
			found = fmt.Sprintf("it knows the pod %s/%s in %.0f clusters (label %s), and their usage counts as one pod's: set metricsSource.labels or "+
				"usage.prometheus.matchers, e.g. {%s: eu-1}", of.Namespace, of.Pod, e.Samples[0].Value, clusterLabel, clusterLabel)
		}
	})
	if err != nil {
		return before
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.warning = found
	return found
}
