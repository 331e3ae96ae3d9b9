package constraint

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/api/resource"

	"attune.io/attune/recommender"
)

// A limit at exactly the maximum ratio is allowed, for every request: LimitRanges are usually configured this way.
func TestALimitAtItsRatio(t *testing.T) {
	for _, most := range []string{"1", "1.5", "2", "2.5", "3", "5", "6", "7", "10", "1.001"} {
		quantity := resource.MustParse(most)
		ratio := RatioOf(quantity)
		for request := recommender.Amount(10); request <= 1000; request++ {
			if request*recommender.Amount(ratio)%1000 != 0 {
				continue
			}
			limit := request * recommender.Amount(ratio) / 1000
			asked, given := *resource.NewMilliQuantity(int64(request), resource.DecimalSI), *resource.NewMilliQuantity(int64(limit), resource.DecimalSI)
			over := *resource.NewMilliQuantity(int64(limit)+1, resource.DecimalSI)
			assert.False(t, ratio.Exceeded(request, limit), "%s: %d/%d", most, request, limit)
			assert.True(t, ratio.Exceeded(request, limit+1), "%s: %d/%d", most, request, limit+1)
			assert.False(t, ExceedsRatio(asked, given, quantity), "%s: %d/%d", most, request, limit)
			assert.True(t, ExceedsRatio(asked, over, quantity), "%s: %d/%d", most, request, limit+1)
			assert.Equal(t, request, ratio.LeastRequest(limit), "%s: %d", most, limit)
			assert.Equal(t, limit, ratio.MostLimit(request), "%s: %d", most, request)
		}
	}
}

func FuzzRatio(f *testing.F) {
	f.Add(int64(3000), int64(19), int64(57))
	f.Add(int64(1), int64(1), int64(1)<<50)
	f.Fuzz(func(t *testing.T, thousandths, request, limit int64) {
		if thousandths < 1 || thousandths > 1e9 || request < 1 || limit < 1 || request > 1<<50 || limit > 1<<50 {
			t.Skip()
		}
		ratio := Ratio(thousandths)
		if least := ratio.LeastRequest(recommender.Amount(limit)); least > 1 {
			assert.False(t, ratio.Exceeded(least, recommender.Amount(limit)))
		}
		if most := ratio.MostLimit(recommender.Amount(request)); most > 0 {
			assert.False(t, ratio.Exceeded(recommender.Amount(request), most))
		}
	})
}
