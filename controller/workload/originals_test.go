package workload

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
)

// A CronJob creates Jobs forever, and some are kept: all of them have its template.
func TestAllJobsOfACronJobHaveOneOriginal(t *testing.T) {
	for name, phase := range map[string]corev1.PodPhase{"ended": corev1.PodSucceeded, "running": corev1.PodRunning} {
		for _, jobs := range []int{1, 6, 20} {
			t.Run(fmt.Sprint(jobs, " ", name), func(t *testing.T) {
				rec := &v1alpha1.AttuneRecommendation{ObjectMeta: metav1.ObjectMeta{Name: "cronjob-backup", Namespace: "shop"}}
				rec.Spec.Workload = v1alpha1.WorkloadRef{Kind: v1alpha1.KindCronJob, Name: "backup"}
				cron := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "backup", Namespace: "shop"}}
				cron.Spec.JobTemplate.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Resources: podview.ToRequirements(small)}}
				objects := []client.Object{cron}
				for i := range jobs {
					pod := jobPod(i, small)
					pod.Status.Phase = phase
					objects = append(objects, pod)
				}
				l := newLab(t, rec, objects...)
				assert.Less(t, l.storm(50), 3)
				l.live(24 * time.Hour)
				assert.LessOrEqual(t, l.status, 2, "in a day in which nothing happens")
				assert.LessOrEqual(t, len(l.rec().Status.Originals), 1)
			})
		}
	}
}
